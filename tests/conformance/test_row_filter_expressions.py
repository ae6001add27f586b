"""The analysis of row filters compared with the server's: what is accepted, the canonical text
(``pg_get_expr``), and the errors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import psycopg
import pytest

from subscriber.base.errors import SubscriberError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.builtin_catalog import built_in_objects, recorded_lines
from subscriber.postgres.expressions.check_filter import analyze_filter, filter_text
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables
from subscriber.postgres.types.registry import form_of
from subscriber.publisher.catalog_tables import read_publisher_tables
from tests.conftest import Database
from tests.random_filters import DDL, random_filter

FILTERS = [
    line for line in Path(__file__).with_name("row_filters.txt").read_text(encoding="utf-8").splitlines() if line
]
HIDES_VALUES = ("22", "42601")
"""Classes of errors whose texts show values; the errors of this program do not show them."""
OUR_OWN = {
    # XML is left out, because not every server is built with it.
    "xmlelement(name x) is document",
    "xmlelement(name x) IS NULL",
    "xmlexists('x' PASSING xm)",
}

Answer = tuple[str, str]
"""OK and the canonical text, or SQLSTATE, message and detail."""


class Publisher:
    """A server that answers questions about row filters; nothing is left behind in it."""

    def __init__(self, conninfo: str, ddl: str = DDL) -> None:
        self.connection = psycopg.connect(conninfo)
        self.connection.execute(ddl.encode())
        self.connection.commit()
        with psycopg.connect(conninfo, autocommit=True) as reader:
            self.tables: PublisherTables = read_publisher_tables(reader)
        self.table: PublisherTable = self.tables.tables["public", "t"]

    def answer(self, text: str) -> Answer:
        """The server's answer for a filter."""
        try:
            self.connection.execute(f"CREATE PUBLICATION p FOR TABLE t WHERE ({text}\n)".encode())
            (row,) = self.connection.execute("SELECT pg_get_expr(prqual, prrelid) FROM pg_publication_rel").fetchall()
        except psycopg.Error as error:
            return _short(error.sqlstate or "", error.diag.message_primary or "", error.diag.message_detail)
        else:
            return "OK", row[0]
        finally:
            self.connection.rollback()

    def our_answer(self, text: str) -> Answer:
        """The answer of this program."""
        try:
            return "OK", filter_text(analyze_filter(text, self.table, self.tables), self.tables)
        except SubscriberError as error:
            return _short(error.sqlstate, error.message, error.detail)

    def difference(self, text: str) -> str | None:
        """The difference between the answers; a constant in a notation that this program refuses by
        name (0A000) is no difference.
        """
        theirs, ours = self.answer(text), self.our_answer(text)
        if ours == theirs or (ours[0] == "0A000" and "is not supported" in ours[1]):
            return None
        if ours[0] == theirs[0] == "OK" and _has_unread_constants(analyze_filter(text, self.table, self.tables)):
            return None  # values of these types cannot be printed here; such a filter is refused
        return f"{text}\n  server: {theirs}\n  ours:   {ours}"


def _has_unread_constants(node: tree.Expression) -> bool:
    """Whether it has constants of types that are not computed here."""
    unread = isinstance(node, tree.Const) and form_of(node.type_oid) is None
    return unread or any(map(_has_unread_constants, node.children))


def _short(sqlstate: str, message: str, detail: str | None) -> Answer:
    return sqlstate, "" if sqlstate.startswith(HIDES_VALUES) else f"{message} {detail or ''}"


@pytest.fixture
def publisher(database: Database) -> Iterator[Publisher]:
    one = Publisher(database.conninfo)
    yield one
    one.connection.close()


def test_the_server_and_we_say_the_same_of_every_filter_of_the_corpus(publisher):
    """Rules B23-B28: acceptance, canonical text, and the error otherwise. Newer words are for newer
    servers.
    """
    texts = [text for text in FILTERS if text not in OUR_OWN]
    differences = [found for text in texts if (found := publisher.difference(text)) is not None]
    if publisher.tables.server_version < 160000:
        # 15 has a hint where later versions have a detail.
        differences = [one for one in differences if "FROM-clause entry" not in one]
    assert not differences, "\n".join(differences)


def test_random_filters_mean_the_same_on_the_server_and_here(publisher):
    """Precedence, types, operators, functions and collations of expressions that nobody thought of
    (B23-B27).
    """
    seed = int(os.environ.get("SEED", Random().randrange(10**6)))
    random = Random(seed)
    accepted, differences = 0, []
    for _ in range(800):
        text = random_filter(random)
        if (found := publisher.difference(text)) is not None:
            differences.append(found)
        status, canonical = publisher.our_answer(text)
        if status == "OK":
            accepted += 1
            # What the catalog shows is read again when a publication is imported.
            if (found := publisher.difference(canonical)) is not None:
                differences.append(found)
    assert not differences, f"SEED={seed}\n" + "\n".join(differences[:10])
    assert accepted > 300, "most random filters are valid"


def test_a_virtual_generated_column_is_what_it_is_generated_from(publisher_database):
    """B29."""
    one = Publisher(
        publisher_database.conninfo,
        """
        CREATE TABLE t (a int, x text,
            y bigint GENERATED ALWAYS AS (a * 2) VIRTUAL,
            z text GENERATED ALWAYS AS (lower(x)) VIRTUAL,
            q text COLLATE "C" GENERATED ALWAYS AS (x) VIRTUAL,
            r varchar(3) GENERATED ALWAYS AS (x) VIRTUAL,
            w text GENERATED ALWAYS AS (x || a) VIRTUAL,
            k int GENERATED ALWAYS AS (a::text::int) VIRTUAL)
        """,
    )
    texts = [
        "y > 5",
        "z = 'x'",
        "q < 'x'",
        "r = 'x'",
        "y IN (1, 2, a)",
        "w = 'x'",
        "k = 1",
        "CASE y WHEN a THEN z = q END",
    ]
    differences = [found for text in texts if (found := one.difference(text)) is not None]
    one.connection.close()
    assert not differences, "\n".join(differences)


def test_the_recorded_catalog_is_the_servers(database):
    """B25: built in is what every server of the version has."""
    version = database.server.major * 10000
    listed = {line for (line,) in database.execute(built_in_objects(version))}
    assert set(recorded_lines(database.server.major)) == listed
