"""The stored conflicts of a subscription."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CONFLICT, ConflictKind
from subscriber.catalog.statistics import ConflictLog, ConflictRecord
from subscriber.postgres.schema.relation_names import QualifiedName
from tests.subscriptions import as_stored

RECORD = ConflictRecord(
    kind=ConflictKind.INSERT_EXISTS,
    relation="public.t",
    final_lsn=LSN(0x1000),
    xid=731,
    timestamp=1_000_000,
    index="t_pkey",
    columns=("a",),
    remote_tuple={"a": "é", "b": None},
    local_conflicts=[{"xid": "7", "tuple": {"a": "mine"}}],
)
MISSING = ConflictRecord(
    kind=ConflictKind.DELETE_MISSING, relation="public.t", final_lsn=LSN(0x1000), xid=731, timestamp=1_000_000
)
Kept = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def log(connection) -> ConflictLog:
    return ConflictLog(connection, 1, "sub")


@pytest.fixture
def kept(connection) -> Kept:
    """These columns of the table, in the order of the rows' numbers."""

    def read(*columns: str) -> list[dict[str, Any]]:
        query = as_stored(*(CONFLICT.c[name] for name in columns)).order_by(CONFLICT.c.conflictid)
        return [dict(row) for row in connection.execute(query).mappings()]

    return read


def test_schema_and_table_are_told_apart_whatever_dots_they_have(log, kept):
    log.write([replace(RECORD, relation=QualifiedName.of("a.b", "c.d"))])
    assert kept("relation", "schemaname", "relname") == [{"relation": "a.b.c.d", "schemaname": "a.b", "relname": "c.d"}]


def test_a_conflict_is_stored_with_its_transaction(log, connection):
    log.write([RECORD])
    row = connection.execute(as_stored(*CONFLICT.c)).mappings().one()
    assert row["recorded_at"].endswith("+00:00")
    assert {name: value for name, value in row.items() if name not in ("conflictid", "recorded_at")} == {
        "subid": 1,
        "subname": "sub",
        "relation": "public.t",
        "conflict_type": "insert_exists",
        "remote_commit_lsn": "0/1000",
        "remote_xid": 731,
        "remote_commit_ts": "2000-01-01T00:00:01.000000+00:00",
        "index_name": "t_pkey",
        "key_columns": '["a"]',
        "attempts": 1,
        "schemaname": "public",
        "relname": "t",
        "remote_origin": "pg_1",
        "replica_identity_full": None,
        "replica_identity": None,
        "resolution": None,
        "remote_applied": None,
        "remote_tuple": '{"a": "é", "b": null}',
        "local_conflicts": '[{"xid": "7", "tuple": {"a": "mine"}}]',
    }


def test_what_is_not_known_of_a_conflict_is_null(log, kept):
    log.write([MISSING])
    unknown = ("index_name", "key_columns", "replica_identity_full", "replica_identity", "remote_tuple")
    assert kept(*unknown) == [dict.fromkeys(unknown)]


def test_conflicts_that_did_not_stop_are_stored_each_time(log, kept):
    log.write([MISSING, MISSING])
    log.write([])
    assert kept("attempts") == [{"attempts": 1}, {"attempts": 1}]


def test_a_conflict_that_stops_is_stored_once_for_all_attempts(log, kept):
    """C35: another transaction, index, kind or relation makes another conflict."""
    others = [
        replace(RECORD, final_lsn=LSN(0x2000)),
        replace(RECORD, index=None),
        replace(RECORD, kind=ConflictKind.MULTIPLE_UNIQUE_CONFLICTS),
        replace(RECORD, relation="public.u"),
    ]
    for records in ([RECORD], [RECORD], others, [RECORD], [others[1]]):
        log.write_stop(records)
    assert kept("conflict_type", "relation", "index_name", "remote_commit_lsn", "attempts") == [
        {
            "conflict_type": record.kind,
            "relation": record.relation,
            "index_name": record.index,
            "remote_commit_lsn": "0/2000" if record is others[0] else "0/1000",
            "attempts": attempts,
        }
        for record, attempts in zip([RECORD, *others], [3, 1, 2, 1, 1], strict=True)
    ]


def test_the_conflict_of_another_subscription_is_another_conflict(connection, log, kept):
    log.write_stop([RECORD])
    ConflictLog(connection, 2, "other").write_stop([RECORD])
    assert kept("subid", "attempts") == [{"subid": 1, "attempts": 1}, {"subid": 2, "attempts": 1}]


def test_the_newest_rows_of_each_subscription_are_kept(monkeypatch, connection, log, kept):
    """bounded_memory"""
    monkeypatch.setattr("subscriber.catalog.statistics.KEPT_ROWS", 2)
    other = ConflictLog(connection, 2, "other")
    for number in range(6):
        record = replace(MISSING, relation=f"public.t{number}")
        if number % 3:
            log.write([record])
        else:
            other.write_stop([record])
    log.write_stop([RECORD])
    assert kept("subid", "relation") == [
        {"subid": 2, "relation": "public.t0"},
        {"subid": 2, "relation": "public.t3"},
        {"subid": 1, "relation": "public.t5"},
        {"subid": 1, "relation": "public.t"},
    ]


def test_of_many_conflicts_the_last_ones_are_written(monkeypatch, log, kept):
    monkeypatch.setattr("subscriber.catalog.statistics.KEPT_ROWS", 2)
    log.write(replace(MISSING, relation=f"public.t{number}") for number in range(5))
    assert kept("relation") == [{"relation": "public.t3"}, {"relation": "public.t4"}]


def test_more_conflicts_than_one_statement_writes_are_all_stored(log, kept):
    log.write([MISSING] * 2_001)
    assert len(kept("attempts")) == 2_001
