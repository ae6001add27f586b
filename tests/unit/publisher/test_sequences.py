"""Which sequences of the publisher belong to which columns, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest

from subscriber.base.lsn import LSN
from subscriber.postgres.schema.shape import SequenceDefinition, SequencePosition
from subscriber.publisher.sequences import PublishedSequence, published_sequences
from tests.scripted_server import Asked, Row, ScriptedServer

TABLES = [("public", "film")]
POSITIONS = "last_value, is_called, "


def sequence(
    name: str,
    *,
    schema: str = "public",
    increment: int = 1,
    in_schema: bool = True,
    may_read: bool = True,
    used: bool = True,
    columns: list[list[str]] | None = None,
) -> Row:
    """A row of the query for sequences."""
    return {
        "nspname": schema, "relname": name, "seqincrement": increment, "has_schema_privilege": in_schema,
        "has_sequence_privilege": may_read, "current_user": "ann", "exists": used, "json_agg": columns,
        "format_type": "bigint", "seqstart": 1, "seqmin": 1, "seqmax": 9, "seqcycle": True,
    }  # fmt: skip


def found(
    row: Row, position: Row | None = None, *, named: Collection[tuple[str, str]] = (), version: int = 180000
) -> tuple[PublishedSequence, ScriptedServer]:
    positions = [{"number": 0, **position, "page_lsn": 0x200}] if position else []
    server = ScriptedServer({"pg_sequence": [row], POSITIONS: positions}, version=version)
    (one,) = published_sequences(server.connection, TABLES, named)
    return one, server


def test_a_sequence_is_told_with_its_columns_and_its_position():
    row = sequence("film_id_seq", increment=-2, columns=[["public", "film", "id"], ["public", "film", "old_id"]])
    one, server = found(row, {"last_value": -10, "is_called": True})
    assert one == PublishedSequence(
        schema="public",
        name="film_id_seq",
        columns=(("public", "film", "id"), ("public", "film", "old_id")),
        used=True,
        position=SequencePosition(last_value=-10, is_called=True, increment=-2),
        definition=SequenceDefinition("bigint", 1, -2, 1, 9, cycles=True),
        page_lsn=LSN(0x200),
    )
    assert server.asked[0].parameters == (["public"], ["film"])


def test_a_sequence_that_only_other_tables_use_is_not_read():
    one, server = found(sequence("other_seq"))
    assert (one.columns, one.used, one.position) == ((), True, None)
    assert not server.statements(POSITIONS)
    one, _ = found(sequence("other_seq"), {"last_value": 7, "is_called": True}, named=[("public", "other_seq")])
    assert one.position == SequencePosition(last_value=7, is_called=True, increment=1)


def test_a_sequence_that_no_column_uses_is_read():
    one, _ = found(sequence("free", used=False), {"last_value": 1, "is_called": False})
    assert one.position == SequencePosition(last_value=1, is_called=False, increment=1)


@pytest.mark.parametrize(
    ("in_schema", "may_read", "grants"),
    [
        (False, True, ('GRANT USAGE ON SCHEMA "S" TO "ann"',)),
        (True, False, ('GRANT SELECT ON SEQUENCE "S"."a""b" TO "ann"',)),
        (False, False, ('GRANT USAGE ON SCHEMA "S" TO "ann"', 'GRANT SELECT ON SEQUENCE "S"."a""b" TO "ann"')),
    ],
    ids=["schema", "sequence", "both"],
)
def test_a_sequence_that_the_role_may_not_read_has_the_grants_instead_of_a_position(in_schema, may_read, grants):
    row = sequence('a"b', schema="S", in_schema=in_schema, may_read=may_read, used=False)
    one, server = found(row)
    assert (one.position, one.grants) == (None, grants)
    assert not server.statements(POSITIONS)


def test_names_are_quoted_in_the_query_for_a_position():
    """Invariant names_are_data."""
    _, server = found(sequence('a"b', schema="S", used=False), {"last_value": 1, "is_called": False})
    assert server.asked[-1].sql == 'SELECT 0, last_value, is_called, NULL::int8 FROM "S"."a""b"'


def test_a_server_of_19_tells_the_lsn_of_the_page():
    _, server = found(sequence("a'b", used=False), {"last_value": 1, "is_called": False}, version=190000)
    page = """((pg_get_sequence_data('"public"."a''b"'::regclass)).page_lsn - '0/0')::int8"""
    assert server.asked[-1].sql == f'SELECT 0, last_value, is_called, {page} FROM "public"."a\'b"'


def test_many_sequences_are_read_by_few_queries():
    names = [f"s{number}" for number in range(250)]

    def positions(asked: Asked) -> list[Row]:
        read = re.findall(r'SELECT (\d+), last_value, is_called, NULL::int8 FROM "public"."s(\d+)"', asked.sql)
        return [
            {"number": int(number), "last_value": int(name), "is_called": False, "lsn": None} for number, name in read
        ]

    server = ScriptedServer({"pg_sequence": [sequence(name, used=False) for name in names], POSITIONS: positions})
    found = published_sequences(server.connection, [])
    assert [(one.name, one.position and one.position.last_value) for one in found] == [
        (name, number) for number, name in enumerate(names)
    ]
    assert len(server.statements(POSITIONS)) == 3
