"""``subscriber verify`` of tables with a history: the open versions, and the rows that appended
changes imply, are the publisher's rows.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.postgres.schema.history_rules import OPEN_LSN
from tests.subscribing import Session
from tests.target_databases import opened
from tests.verifying import counts, subscribe, verify

pytestmark = [pytest.mark.server, pytest.mark.slow]

KINDS = ["sqlite", "postgresql", "duckdb", "mariadb"]


@pytest.fixture(params=KINDS)
def session(request, publisher_database, tmp_path):
    publisher_database.execute(
        "CREATE TABLE t (k int PRIMARY KEY, v text); CREATE TABLE u (k int PRIMARY KEY, v text, large text);"
        "CREATE TABLE w (a int, b numeric); ALTER TABLE w REPLICA IDENTITY FULL;"
        "INSERT INTO t VALUES (1, 'one'), (2, 'two'); CREATE PUBLICATION p FOR TABLE t, u, w"
    )
    with opened(request.param, request, tmp_path) as target:
        made = Session(target, publisher_database, str(tmp_path / "journal"))
        subscribe(made, options=", history = append, history_tables = 'public.t = scd2'")
        yield made


def write(session: Session, name: str, *rows: dict[str, object]) -> None:
    with session.target.begin() as connection:
        table = session.target.shapes.reflect(connection, "public", name)
        assert table is not None
        for row in rows:
            connection.execute(sa.insert(table.clause()).values(row))


def keep(session: Session, key: int, text: str, ends: int = OPEN_LSN) -> None:
    """Add a version."""
    version = {"_from_lsn": 1, "_from_sequence": 2, "_to_lsn": ends, "_to_sequence": 0}
    write(session, "t", {"k": key, "v": text, **version})


def change(op: str, lsn: int, sequence: int, unchanged: str | None = None, **values: object) -> dict[str, object]:
    """A row of an append table."""
    return {**values, "_op": op, "_lsn": lsn, "_sequence": sequence, "_unchanged": unchanged}


def test_open_versions_are_compared_with_the_rows_of_the_publisher(session):
    keep(session, 1, "eins", ends=7)
    keep(session, 1, "one")
    keep(session, 2, "two")
    keep(session, 3, "three", ends=8)
    versions = verify(session, tables=("public.t",)).tables[0]
    assert (counts(versions), versions.target_rows, versions.error) == ((0, 0, 0), 2, None)

    keep(session, 4, "four")
    assert counts(verify(session, tables=("public.t",)).tables[0]) == (0, 0, 1)


HISTORY = (
    change("insert", 7, 3, k=9, v="before", large=None),
    change("truncate", 8, 2),
    change("insert", 10, 3, k=1, v="one", large="L1"),
    change("update_postimage", 20, 3, "large", k=1, v="uno", large=None),
    change("insert", 20, 5, k=2, v="two", large=None),
    change("update_preimage", 30, 2, "v, large", k=2, v=None, large=None),
    change("update_postimage", 30, 3, k=3, v="three", large=None),
    change("insert", 40, 3, k=4, v="four", large=None),
    change("delete", 40, 4, "v, large", k=4, v=None, large=None),
)


def test_the_last_change_of_each_key_is_compared_with_the_row_of_the_publisher(session, publisher_database):
    publisher_database.execute("INSERT INTO u VALUES (1, 'uno', 'L1'), (3, 'three', NULL)")
    write(session, "u", *HISTORY)
    rows = verify(session, tables=("public.u",)).tables[0]
    assert (counts(rows), rows.publisher_rows, rows.target_rows, rows.error) == ((0, 0, 0), 2, 2, None)

    write(session, "u", change("update_postimage", 50, 3, "large", k=3, v="drei", large=None))
    write(session, "u", change("insert", 60, 3, k=5, v="five", large=None))
    found = verify(session, tables=("public.u",), show_values=True).tables[0]
    assert (counts(found), found.columns) == ((1, 0, 1), ("v",))
    assert {(one.kind, one.key) for one in found.keys} == {("differing", ("3",)), ("only_target", ("5",))}

    publisher_database.execute("UPDATE u SET v = 'drei' WHERE k = 3; INSERT INTO u VALUES (5, 'five', NULL)")
    assert counts(verify(session, tables=("public.u",)).tables[0]) == (0, 0, 0)
    publisher_database.execute("UPDATE u SET large = 'L2' WHERE k = 1; DELETE FROM u WHERE k = 5")
    found = verify(session, tables=("public.u",)).tables[0]
    assert (counts(found), found.columns) == ((1, 0, 1), ("large",))


def test_a_history_that_lacks_a_value_of_a_present_row_is_refused(session, publisher_database):
    publisher_database.execute("INSERT INTO u VALUES (3, 'three', 'L')")
    write(
        session,
        "u",
        change("insert", 10, 3, k=2, v="two", large="L"),
        change("update_preimage", 30, 2, "v, large", k=2, v=None, large=None),
        change("update_postimage", 30, 3, "large", k=3, v="three", large=None),
    )
    rows = verify(session, tables=("public.u",)).tables[0]
    assert rows.error is not None
    assert 'the history of table "public.u" does not have all values' in rows.error
    assert "ALTER SUBSCRIPTION s REFRESH TABLE public.u;" in rows.error

    write(session, "u", change("update_postimage", 40, 3, k=3, v="three", large="L"))
    assert verify(session, tables=("public.u",)).is_equal


def test_changes_of_a_table_without_a_key_are_compared_as_whole_rows(session, publisher_database):
    publisher_database.execute("INSERT INTO w VALUES (1, 1.5), (1, 1.5), (2, NULL)")
    write(
        session,
        "w",
        *(change("insert", 10, number, a=1, b="1.5") for number in (3, 5, 7)),
        change("update_preimage", 20, 2, a=1, b="1.5"),
        change("update_postimage", 20, 3, a=2, b=None),
        change("insert", 30, 3, a=3, b="3"),
        change("delete", 40, 2, a=3, b="3"),
    )
    rows = verify(session, tables=("public.w",)).tables[0]
    assert (counts(rows), rows.publisher_rows, rows.target_rows, rows.error) == ((0, 0, 0), 3, 3, None)

    publisher_database.execute("DELETE FROM w WHERE ctid = (SELECT min(ctid) FROM w)")
    assert counts(verify(session, tables=("public.w",)).tables[0]) == (0, 0, 1)
    write(session, "w", change("update_postimage", 50, 3, a=4, b=None))
    rows = verify(session, tables=("public.w",)).tables[0]
    assert rows.error is not None
    assert "not FULL then" in rows.error


def test_histories_are_not_repaired(session, publisher_database):
    publisher_database.execute("INSERT INTO u VALUES (1, 'one', NULL)")
    keep(session, 1, "uno")
    versions, rows = (verify(session, repair=True, tables=(name,)).tables[0] for name in ("public.t", "public.u"))
    assert (counts(versions), counts(rows)) == ((1, 1, 0), (0, 1, 0))
    for found in (versions, rows):
        assert found.error is not None
        assert "has a history, which is not repaired" in found.error
    assert counts(verify(session, tables=("public.t",)).tables[0]) == (1, 1, 0)
