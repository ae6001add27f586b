"""Values that the target cannot hold, and NULL in their place: in all kinds of changes, counted
once for each value that was sent.

SQLite holds almost everything, but a column that ``create_tables`` has declared with a size is kept
to
it: ``v`` takes three characters, ``n`` two digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier
from subscriber.apply.frame_order import ChangeRun
from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.writing.bulk_writer import PipelinedChanges
from subscriber.apply.writing.unrepresentable import (
    BlockReplacement,
    ReplacedGroups,
    ReplacedTally,
    Replacement,
    replaced_columns,
)
from subscriber.base.errors import TargetRelationError, UnsupportedValue
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import REPLACED_ROW
from subscriber.catalog.replaced_values import replaced_counts
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.schema.value_rules import parse_value_rules
from subscriber.targets import TargetColumn, TargetTable
from subscriber.targets.base.loading import read_block, write_block
from subscriber.targets.mariadb.values import MariaDBValues
from tests.appliers import obeying
from tests.frames import frame, relation, transaction, values
from tests.subscriptions import as_stored

T = relation("public.t", {"k": "int4", "v": "text", "n": "numeric"}, ["k"], oid=1)
FULL = relation("public.f", {"v": "text", "n": "numeric"}, identity="f", oid=2)
ALL = "null"


@pytest.fixture
def apply(target, execute) -> Callable[..., object]:
    execute("CREATE TABLE t (k INT PRIMARY KEY, v CHARACTER VARYING(3), n NUMERIC_TEXT(2,0))")
    execute("CREATE TABLE f (v CHARACTER VARYING(3), n NUMERIC_TEXT(2,0))")

    def run(*messages: m.Message, rules: str = ALL, show: bool = False, end: int = 1000, **options):
        obeyed = obeying(unrepresentable_values=parse_value_rules(rules), log_conflict_values=show)
        applier = BulkApplier(
            target,
            subscription="sub",
            subid=1,
            read_rules=lambda _: replace(obeyed, **options),
        )
        frames = [frame([T, FULL], messages)]
        return apply_batch(applier, lambda: frames, applier.read_progress(), LSN(end))

    return run


def insert(key: int, v: str | None, n: str | None = "1") -> m.Insert:
    return m.Insert(1, values(str(key), v, n))


def counts(target) -> dict[str, int]:
    with target.engine.connect() as connection:
        return {f"{one.relation}.{one.column}": one.count for one in replaced_counts(connection, 1)}


def records(target) -> list[tuple[Any, ...]]:
    table = REPLACED_ROW.c
    query = as_stored(
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
        read_rules=lambda _: obeying(unrepresentable_values=parse_value_rules(f"public.t.{column} = null")),
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
        target, subscription="sub", subid=1, read_rules=lambda _: obeying(unrepresentable_values=parse_value_rules(ALL))
    )
    for row in (("long", "a"), ("a", "long")):
        frames = [frame([shape], transaction(500, m.Insert(1, values(*row))))]
        with pytest.raises(UnsupportedValue, match="value too long"):
            apply_batch(applier, frames.copy, LSN(100), LSN(1000))


# Blocks of a copy with NULL in the place of values that the target cannot hold.


KEY = TargetColumn("k", "varchar(9)", "varchar", nullable=False)
X = TargetColumn("x", "double", "double")
V = TargetColumn("v", "varchar(3)", "varchar")
REMOTE = relation("public.t", {"k": "text", "x": "float8", "v": "text"}, ["k"])
LOCAL = TargetRelation(REMOTE, TargetTable(None, "t", (KEY, X, V), ("k",)), (KEY, X, V), "public.t")


class Target:
    """A target with MariaDB's rules, and without a server."""

    capabilities = SimpleNamespace(postgresql_text=False)
    values = MariaDBValues()


@pytest.fixture
def tally() -> ReplacedTally:
    return ReplacedTally(show_values=True)


@pytest.fixture
def blocks(tally) -> BlockReplacement:
    columns = replaced_columns(parse_value_rules("null"), LOCAL)
    assert list(columns) == ["x", "v"]
    return BlockReplacement(Target(), LOCAL, columns, tally, LSN(0x77))  # type: ignore[arg-type]


def found(tally: ReplacedTally) -> dict[str, tuple[int, list[tuple[object, object]]]]:
    return {
        column.column: (values.count, [(row.key_values, row.value) for row in values.rows])
        for column, values in tally.columns.items()
    }


def test_fields_of_copys_text_are_replaced_in_their_lines(blocks, tally):
    block = b"a\t1.5\tabc\nb\tNaN\tabcd\nc\\td\t\\N\t\\N\ne\t-Infinity\ta\\\\b\n"
    assert blocks.replace(block, "text") == b"a\t1.5\tabc\nb\t\\N\t\\N\nc\\td\t\\N\t\\N\ne\t\\N\ta\\\\b\n"
    assert found(tally) == {
        "x": (2, [(("b",), "NaN"), (("e",), "-Infinity")]),
        "v": (1, [(("b",), "abcd")]),
    }
    assert {values.last for values in tally.columns.values()} == {LSN(0x77)}


def test_a_block_without_such_a_value_stays_as_it_is(blocks, tally):
    block = b"a\t1.5\tabc\n\xef\xbb\xbf\t\\N\t\n"
    assert blocks.replace(block, "text") is block
    arrow = write_block(pa.record_batch([["a"], [1.5], [None]], names=["0", "1", "2"]))
    assert blocks.replace(arrow, "arrow") is arrow
    assert found(tally) == {}


@pytest.mark.parametrize("block", [b"\xef\xbb\xbf\tNaN\ta\n", b"\tNaN\t\n", b"a\\nb\tNaN\ta\\rb\n"])
def test_the_lines_are_those_that_copy_has_written(blocks, tally, block):
    """A byte order mark and an empty text are values; line feeds are escaped"""
    assert blocks.replace(block, "text") == block.replace(b"NaN", rb"\N")
    assert found(tally)["x"][0] == 1
    key = block.partition(b"\t")[0].decode().replace("\\n", "\n")
    assert found(tally)["x"][1][0][0] == (key,)


def test_a_value_is_measured_without_its_escapes(blocks, tally):
    block = b"a\t1\t\\\\\\\\\\\\\nb\t1\t\\\\\\\\\\\\\\\\\n"
    assert blocks.replace(block, "text") == b"a\t1\t\\\\\\\\\\\\\nb\t1\t\\N\n"


def test_arrow_blocks_are_replaced_column_by_column(blocks, tally):
    names = ["0", "1", "2"]
    block = write_block(pa.record_batch([["a", "b"], [float("nan"), 2.0], ["x", "long"]], names=names))
    assert read_block(blocks.replace(block, "arrow")).to_pydict() == {
        "k": ["a", "b"], "x": [None, 2.0], "v": ["x", None],
    }  # fmt: skip
    assert found(tally) == {"x": (1, [(("a",), "NaN")]), "v": (1, [(("b",), "long")])}


def test_the_values_of_all_blocks_are_counted_and_the_first_ones_kept(blocks, tally):
    """bounded_memory"""
    for _ in range(3):
        blocks.replace(b"a\tNaN\ta\n" * 600, "text")
    ((count, rows),) = found(tally).values()
    assert (count, len(rows)) == (1800, 1000)


def test_a_table_with_another_replica_identity_has_its_columns_left_alone():
    shape = relation("public.t", {"k": "text", "x": "float8", "v": "text"}, ["x"])
    assert list(replaced_columns(parse_value_rules("null"), replace(LOCAL, remote=shape))) == ["v"]


# The groups of a frame as they are written: each is converted once.


R = relation("public.r", {"k": "int4", "v": "text"}, ["k"])


def insert_of(key: int, value: str) -> m.Insert:
    return m.Insert(R.relation_id, values(str(key), value))


def all_of_them(_relation: m.Relation) -> bool:
    return True


@pytest.fixture
def groups(target, execute):
    """The groups of a frame, and the option that replaces values longer than three characters."""
    execute("CREATE TABLE r (k INT PRIMARY KEY, v CHARACTER VARYING(3))")
    with target.begin() as connection:
        relations = RelationMap(target, connection)
        pipelined = PipelinedChanges(target, connection, relations, lambda: None)

        def opened(made: Frame, rules: str | None = "null") -> ReplacedGroups:
            replacement = None if rules is None else Replacement(target, parse_value_rules(rules))
            found = ReplacedGroups(replacement, relations, pipelined)
            found.open_frame(made)
            return found

        yield opened


def test_null_takes_the_place_of_a_value_that_is_too_long(groups):
    made = frame([R], [insert_of(1, "abc"), insert_of(2, "abcd")])
    group = groups(made).group(0)
    assert group.new.column("v").to_pylist() == ["abc", None]


def test_a_group_is_converted_once_for_a_frame(groups):
    found = groups(frame([R], [insert_of(1, "abcd")]))
    assert found.group(0) is found.group(0)
    found.open_frame(frame([R], [insert_of(1, "abc")]))
    assert found.group(0).new.column("v").to_pylist() == ["abc"]


@pytest.mark.parametrize("rules", [None, "public.other.* = null"])
def test_without_the_option_a_group_stays_as_it_was_sent(groups, rules):
    made = frame([R], [insert_of(1, "abcd")])
    found = groups(made, rules)
    assert found.group(0) is made.groups[0]
    assert not found.may_replace(made, all_of_them)


@pytest.mark.parametrize(("value", "expected"), [("abc", False), ("abcd", True)])
def test_only_a_frame_with_such_a_value_is_written_in_order(groups, value, expected):
    made = frame([R], [insert_of(1, value)])
    assert groups(made).may_replace(made, all_of_them) is expected


def test_a_frame_whose_table_is_not_known_is_written_in_order(groups):
    unknown = relation("public.unknown", {"k": "int4"}, ["k"], oid=7)
    made = frame([unknown], [m.Insert(7, values("1"))])
    assert groups(made).may_replace(made, all_of_them)


def test_a_table_whose_changes_are_not_applied_is_not_opened(groups):
    """It is being copied, and its copy stores its shape: a second writer of that row would have to
    wait for it.
    """
    opened: list[str] = []
    found = groups(frame([R], [insert_of(1, "abcd")]))
    found._relations.open_unchanged = opened.append
    assert not found.may_replace(frame([R], [insert_of(1, "abcd")]), lambda _relation: False)
    assert opened == []


def test_only_the_values_of_a_run_are_counted(groups):
    found = groups(frame([R], [insert_of(1, "abcd"), insert_of(2, "abcd"), insert_of(3, "abcd")]))
    found.group(0)
    tally = ReplacedTally()
    found.count(ChangeRun(0, 1, 3), tally, LSN(192))
    ((column, counted),) = tally.columns.items()
    assert (column.column, counted.count, counted.last) == ("v", 2, 192)
