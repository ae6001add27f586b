"""What copies from one snapshot share: read once, whatever the number of tables. The session is
tested in tests/conformance/test_copy.py.
"""

from __future__ import annotations

from subscriber.publisher.snapshot import CopySession
from tests.scripted_server import ScriptedServer


def test_publications_are_read_once_for_all_tables():
    rows = [{"nspname": "public", "relname": "a", "relkind": "r", "columns": ["id"], "filter": None}]
    server = ScriptedServer(
        {"p.pubinsert": [], "pg_get_expr(gpt.qual": rows, "prattrs": [], "FROM pg_publication": [{"pubname": "p"}]}
    )
    session = CopySession("dbname=none", "s", "0-1", publications=("p",), streamed=("p", "gone"))
    for _ in range(2):
        assert session.published(server.connection).published_table("public", "a").columns == ("id",)
        assert session.missing(server.connection) == ["gone"]
    assert len(server.asked) == 4
    with session:
        pass  # nothing was opened, so nothing is closed
