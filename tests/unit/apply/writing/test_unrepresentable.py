"""Values that the target cannot hold, and NULL in their place: in all kinds of changes, counted
once for each value that was sent.

SQLite holds almost everything, but a column that ``create_tables`` has declared with a size is kept
to
it: ``v`` takes three characters, ``n`` two digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber import catalog
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.batch_rules import Rules
from subscriber.apply.bulk import BulkApplier
from subscriber.catalog.own_tables import REPLACED_ROW
from subscriber.errors import TargetRelationError, UnsupportedValue
from subscriber.lsn import LSN
from subscriber.protocol import messages as m
from subscriber.schema.value_rules import parse_value_rules
from tests.frames import frame, relation, transaction, values

T = relation("public.t", {"k": "int4", "v": "text", "n": "numeric"}, ["k"], oid=1)
FULL = relation("public.f", {"v": "text", "n": "numeric"}, identity="f", oid=2)
ALL = "null"


@pytest.fixture
def apply(target, execute) -> Callable[..., object]:
    execute("CREATE TABLE t (k INT PRIMARY KEY, v CHARACTER VARYING(3), n NUMERIC_TEXT(2,0))")
    execute("CREATE TABLE f (v CHARACTER VARYING(3), n NUMERIC_TEXT(2,0))")

    def run(*messages: m.Message, rules: str = ALL, show: bool = False, end: int = 1000, **options):
        applier = BulkApplier(
            target,
            subscription="sub",
            subid=1,
            read_rules=lambda _: Rules(values=parse_value_rules(rules), log_conflict_values=show, **options),
        )
        frames = [frame([T, FULL], messages)]
        return apply_batch(applier, lambda: frames, applier.read_progress(), LSN(end))

    return run


def insert(key: int, v: str | None, n: str | None = "1") -> m.Insert:
    return m.Insert(1, values(str(key), v, n))


def counts(target) -> dict[str, int]:
    with target.engine.connect() as connection:
        return {f"{one.relation}.{one.column}": one.count for one in catalog.replaced_counts(connection, 1)}


def records(target) -> list[tuple[Any, ...]]:
    table = REPLACED_ROW.c
    query = sa.select(
        table.relation, table.columnname, table.remote_lsn, table.key_columns, table.key_values, table.replaced_value
    )
    with target.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(query.order_by(table.replacedid))]


def test_without_the_option_such_a_value_stops_the_subscription(target, apply):
    with pytest.raises(UnsupportedValue, match="value too long"):
        apply(*transaction(500, insert(1, "long")), rules="stop")
    assert counts(target) == {}


def test_null_takes_the_place_of_the_value_and_everything_else_is_written(target, apply, execute):
    apply(*transaction(500, insert(1, "abc"), insert(2, "long"), insert(3, None, "123")))
    assert execute("SELECT k, v, n FROM t ORDER BY k") == [(1, "abc", "1"), (2, None, "1"), (3, None, None)]
    assert counts(target) == {"public.t.n": 1, "public.t.v": 1}
    assert records(target) == [
        ("public.t", "v", "0/1EC", '["k"]', None, None),
        ("public.t", "n", "0/1EC", '["k"]', None, None),
    ]


def test_the_values_are_recorded_if_conflicts_are_logged_with_values(target, apply):
    apply(*transaction(500, insert(7, "long" + "g" * 100)), show=True)
    ((*_, key, value),) = records(target)
    assert json.loads(key) == ["7"]
    assert value.startswith("longgg")
    assert len(value) < 80, "as in subscriber_conflict, long values are cut (C21)"


def test_an_update_replaces_and_counts_what_it_sends(target, apply, execute):
    """A11: an unchanged value that is not sent is not counted"""
    apply(*transaction(500, insert(1, "abc")))
    apply(
        *transaction(1500, m.Update(1, None, None, values("1", "long", "2"))),
        *transaction(1600, m.Update(1, None, None, values("1", m.UNCHANGED, "3"))),
        end=2000,
    )
    assert execute("SELECT k, v, n FROM t") == [(1, None, "3")]
    assert counts(target) == {"public.t.v": 1}
    assert records(target)[0][2] == "0/5D4"


def test_a_row_without_a_key_is_found_although_its_value_was_replaced(target, apply, execute):
    """C14: REPLICA IDENTITY FULL sends the old value"""
    apply(*transaction(500, m.Insert(2, values("long", "1")), m.Insert(2, values("long", "2"))))
    result = apply(
        *transaction(1500, m.Update(2, "O", values("long", "1"), values("abc", "1"))),
        *transaction(1600, m.Delete(2, "O", values("long", "2"))),
        end=2000,
    )
    assert execute("SELECT v, n FROM f") == [("abc", "1")]
    assert result.conflicts == {}
    assert counts(target) == {"public.f.v": 2}, "an old value is not counted"
    assert records(target)[0][3] is None


def test_a_value_is_counted_for_each_change_even_if_a_later_one_overwrites_it(target, apply, execute):
    """fast_equals_exact"""
    changes = [m.Update(1, None, None, values("1", "long", str(number))) for number in range(40)]
    apply(*transaction(500, insert(1, "a"), *changes))
    assert execute("SELECT k, v, n FROM t") == [(1, None, "39")]
    assert counts(target) == {"public.t.v": 40}


def test_a_batch_that_fails_counts_what_is_committed_of_it(target, apply, execute):
    """C35: the transactions before the failing one; progress_with_data"""
    batch = (*transaction(500, insert(1, "long")), *transaction(600, insert(2, "long"), insert(1, "b")))
    with pytest.raises(Exception, match=r"duplicate key|already exists|conflict"):
        apply(*batch)
    assert execute("SELECT k FROM t") == [(1,)]
    assert counts(target) == {"public.t.v": 1}


def test_changes_that_are_not_applied_are_not_counted(target, apply):
    """C4, C40"""
    apply(*transaction(500, insert(1, "long")), skip_lsn=LSN(492))
    apply(*transaction(1500, insert(2, "long")), should_apply=lambda *_: False, end=2000)
    assert counts(target) == {}


def test_only_the_columns_that_the_option_means_are_replaced(target, apply, execute):
    apply(*transaction(500, insert(1, "long")), rules="public.t.v = null")
    with pytest.raises(UnsupportedValue, match='column "n"'):
        apply(*transaction(1500, insert(2, "long", "123")), rules="public.t.v = null", end=2000)
    assert execute("SELECT k FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("column", "reason"), [("k", "rows are found by it"), ("r", "it does not allow NULL in the target")]
)
def test_a_column_that_is_named_and_cannot_be_replaced_stops_the_subscription_when_its_table_is_first_seen(
    target, apply, execute, column, reason
):
    execute("DROP TABLE t")
    execute("CREATE TABLE t (k INT PRIMARY KEY, v TEXT, n TEXT, r TEXT NOT NULL DEFAULT 'x')")
    shape = relation("public.t", {"k": "int4", "v": "text", "n": "numeric", "r": "text"}, ["k"], oid=1)
    applier = BulkApplier(
        target,
        subscription="sub",
        subid=1,
        read_rules=lambda _: Rules(values=parse_value_rules(f"public.t.{column} = null")),
    )
    frames = [frame([shape], transaction(500, m.Insert(1, values("1", "a", "1", "r"))))]
    with pytest.raises(TargetRelationError) as raised:
        apply_batch(applier, lambda: frames, LSN(100), LSN(1000))
    assert raised.value.sqlstate == "42P16"
    assert raised.value.message.endswith(
        f'column "{column}" of table "public.t" cannot be replaced by NULL, because {reason}'
    )
    assert execute("SELECT k FROM t") == []


def test_a_key_that_the_target_cannot_hold_stops_the_subscription_even_if_all_values_are_replaced(target, execute):
    execute("CREATE TABLE t (k CHARACTER VARYING(3) PRIMARY KEY, v CHARACTER VARYING(3) NOT NULL)")
    shape = relation("public.t", {"k": "text", "v": "text"}, ["k"], oid=1)
    applier = BulkApplier(
        target, subscription="sub", subid=1, read_rules=lambda _: Rules(values=parse_value_rules(ALL))
    )
    for row in (("long", "a"), ("a", "long")):
        frames = [frame([shape], transaction(500, m.Insert(1, values(*row))))]
        with pytest.raises(UnsupportedValue, match="value too long"):
            apply_batch(applier, frames.copy, LSN(100), LSN(1000))
