"""Invariant fast_equals_exact: for every history, the bulk path leaves the same tables, progress,
conflict records, counters and errors as the exact path.

The target differs from the publisher in some rows, so that changes find no row, or find one in
their way. Some tables have a second unique key, a trigger or no key, where the order matters.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from subscriber.apply import coalesce, reorder
from subscriber.apply.applier import Rules
from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import BulkApplier, ExactApplier
from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.catalog.deleted_rows import record_deleted_rows
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.schema.value_rules import parse_value_rules
from subscriber.targets import Target, open_target
from tests.appliers import obeying
from tests.frames import relation, transaction, values
from tests.property.test_apply import cut as _cut

pytestmark = pytest.mark.slow

PLAIN = relation("public.plain", {"k": "int4", "v": "text", "big": "text"}, ["k"], oid=1)
PAIR = relation("public.pair", {"a": "int4", "b": "text", "v": "text"}, ["a", "b"], oid=2)
UNIQUE = relation("public.uniq", {"k": "int4", "v": "text"}, ["k"], oid=3)
WATCHED = relation("public.watched", {"k": "int4", "v": "text"}, ["k"], oid=4)
LOG = relation("public.log", {"v": "text"}, oid=5)
FREE = relation("public.free", {"k": "int4", "v": "text", "big": "text"}, ["k"], oid=6)
ALTERED = relation("public.free", {"k": "int4", "v": "varchar", "big": "text"}, ["k"], oid=6)
"""The table ``free`` after ALTER TABLE at the publisher."""
SHAPES = [PLAIN, PAIR, UNIQUE, WATCHED, LOG, FREE]
FIRST = LSN(500)
TABLES = (
    "CREATE TABLE plain (k INTEGER PRIMARY KEY, v TEXT NOT NULL CHECK (v <> 'never'), big TEXT)",
    "CREATE TABLE pair (a INTEGER, b TEXT, v TEXT, PRIMARY KEY (a, b))",
    "CREATE TABLE uniq (k INTEGER PRIMARY KEY, v TEXT UNIQUE)",
    "CREATE TABLE watched (k INTEGER PRIMARY KEY, v TEXT)",
    "CREATE TABLE seen (k INTEGER, v TEXT)",
    "CREATE TRIGGER watch AFTER UPDATE ON watched BEGIN INSERT INTO seen VALUES (new.k, new.v); END",
    "CREATE TABLE log (v TEXT)",
    "CREATE TABLE free (k INTEGER PRIMARY KEY, v TEXT NOT NULL, big TEXT)",
)
SEEN = (
    "SELECT * FROM plain ORDER BY k",
    "SELECT * FROM pair ORDER BY a, b",
    "SELECT * FROM uniq ORDER BY k",
    "SELECT * FROM watched ORDER BY k",
    "SELECT * FROM seen ORDER BY rowid",
    "SELECT * FROM log ORDER BY v",
    "SELECT * FROM free ORDER BY k",
    "SELECT remote_lsn FROM subscriber_replication_origin_status",
    (
        "SELECT relation, conflict_type, remote_commit_lsn, remote_xid, index_name, key_columns"
        " FROM subscriber_conflict ORDER BY conflictid"
    ),
    "SELECT * FROM subscriber_stat_subscription_stats",
)
"""What can be seen in a target: the tables, the progress, the conflict records and the counters."""


@dataclass(frozen=True)
class Step:
    """One change. It need not be possible at a publisher: a target may differ in any way."""

    what: str
    key: int
    other: int
    text: str | None
    table: int = 1

    def message(self) -> m.Message:
        key, other, text = str(self.key), str(self.other), self.text
        match self.what:
            case "insert":
                return m.Insert(self.table, values(key, text, text))
            case "update":
                return m.Update(self.table, None, None, values(key, text, text))
            case "touch":
                return m.Update(self.table, None, None, values(key, text, m.UNCHANGED))
            case "only big":
                return m.Update(self.table, None, None, values(key, m.UNCHANGED, text))
            case "whole":
                return m.Update(self.table, "O", values(key, "old", "old"), values(key, text, m.UNCHANGED))
            case "delete":
                return m.Delete(self.table, "K", values(key, None, None))
            case "move":
                return m.Update(self.table, "K", values(key, None, None), values(other, text, m.UNCHANGED))
            case "pair+":
                return m.Insert(2, values(key, other, text))
            case "pair~":
                return m.Update(2, None, None, values(key, other, text))
            case "pair-":
                return m.Delete(2, "K", values(key, other, None))
            case "unique+":
                return m.Insert(3, values(key, text))
            case "unique~":
                return m.Update(3, None, None, values(key, text))
            case "watched+":
                return m.Insert(4, values(key, text))
            case "watched~":
                return m.Update(4, None, None, values(key, text))
            case "log":
                return m.Insert(5, values(text))
            case _:
                return m.Truncate((self.table,), cascade=False, restart_identity=False)

    def possible(self, there: set[int]) -> Step:
        """The step, or one that is possible in its place."""
        what = self.what
        if what == "truncate":
            there.clear()
        elif self.key not in there:
            what = "insert"
        elif what == "insert" or (what == "move" and self.other in there):
            what = "update"
        if what in ("delete", "move"):
            there.remove(self.key)
        if what in ("insert", "move"):
            there.add(self.key if what == "insert" else self.other)
        return replace(self, what=what)


USUAL = ("insert", "update", "touch", "delete", "pair+", "pair~", "pair-", "log")
RARE = ("move", "unique+", "unique~", "watched+", "watched~", "truncate")

keys = st.integers(0, 5)
texts = st.sampled_from(["", "x", "007", "y"])
usual = st.builds(Step, st.sampled_from(USUAL), keys, keys, texts)
rare = st.builds(Step, st.sampled_from(USUAL + RARE), keys, keys, st.none() | st.sampled_from(["x", "y", "never"]))
histories = st.lists(st.lists(usual | usual | usual | rare, max_size=6), min_size=1, max_size=12)
rows = st.dictionaries(keys, texts, max_size=6)
pairs = st.sets(st.tuples(keys, keys.map(str)), max_size=8)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables, and a catalog that knows the shapes of all relations.
    Changes of a shape that is not known are applied in the publisher's order.
    """
    file = tmp_path_factory.mktemp("fast_equals_exact") / "template.db"
    with open_target(f"sqlite:///{file}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(0))
            for statement in TABLES:
                connection.exec_driver_sql(statement)
        inserts = [m.Insert(shape.relation_id, values(*"0" * len(shape.columns))) for shape in SHAPES]
        frames = _cut(transaction(FIRST, *inserts), (), SHAPES)
        ExactApplier(target, subscription="s", subid=1).apply(frames, start=LSN(0), end=FIRST)
        with target.begin() as connection:
            for table in ("plain", "pair", "uniq", "watched", "log", "free"):
                connection.exec_driver_sql(f"DELETE FROM {table}")
    return file


@contextmanager
def target_with(template: Path, plain: dict[int, str], pairs: set[tuple[int, str]]) -> Iterator[Target]:
    """A copy of the template with some rows."""
    with tempfile.TemporaryDirectory() as folder:
        file = shutil.copyfile(template, Path(folder, "t.db"))
        with open_target(f"sqlite:///{file}") as target:
            with target.begin() as connection:
                for key, text in plain.items():
                    connection.exec_driver_sql("INSERT INTO plain VALUES (?, ?, ?)", (key, text, "big"))
                    connection.exec_driver_sql("INSERT INTO free VALUES (?, ?, ?)", (key, text, "big"))
                    connection.exec_driver_sql("INSERT INTO watched VALUES (?, ?)", (key, text))
                for pair in sorted(pairs):
                    connection.exec_driver_sql("INSERT INTO pair VALUES (?, ?, '')", pair)
            yield target


def applied(
    applier_type: Callable[..., ExactApplier],
    target: Target,
    batches: Sequence[Any],
    seen: Sequence[str] = SEEN,
    start: LSN = FIRST,
    restarts: bool = False,
) -> list[object]:
    """What remains after the batches: their results, then all that can be seen in the target."""
    applier = applier_type(target, subscription="s", subid=1)
    left: list[object] = []
    done = start
    for frames, end in batches:
        if restarts:
            applier, done = applier_type(target, subscription="s", subid=1), start
        try:
            result = apply_batch(applier, partial(iter, frames), done, end)
            done = result.progress
            left.append(result)
        except SubscriberError as error:
            left.append((type(error), error.report(), error.sqlstate, error.relation, error.lsn))
            break
    with target.begin() as connection:
        left += [connection.exec_driver_sql(query).all() for query in seen]
    return left


@settings(max_examples=60)
@given(histories, rows, pairs, st.lists(st.integers(0, 200), max_size=4), st.integers(1, 12))
def test_the_bulk_path_leaves_what_the_exact_path_leaves(template, history, plain, pairs, cuts, together):
    transactions = [
        transaction(1000 * number, *(step.message() for step in steps), xid=number)
        for number, steps in enumerate(history, start=1)
    ]
    batches = []
    for first in range(0, len(transactions), together):
        part = transactions[first : first + together]
        frames = _cut([message for one in part for message in one], cuts, SHAPES)
        batches.append((frames, LSN(1000 * (first + len(part)))))
    with target_with(template, plain, pairs) as one, target_with(template, plain, pairs) as two:
        exact = applied(ExactApplier, one, batches)
        fast = applied(BulkApplier, two, batches)
    event("stopped" if isinstance(exact[0], tuple) else "applied")
    assert fast == exact


actions = ("update", "touch", "only big", "whole", "insert", "delete", "delete")
changes = st.builds(Step, st.sampled_from(actions), keys, keys, texts, st.sampled_from([6, 6, 6, 1]))
fences = st.builds(Step, st.sampled_from(["move", "truncate"]), keys, keys, texts, st.just(6))
conflicts = st.builds(Step, st.sampled_from(actions), keys, keys, st.none() | texts, st.just(6))


@settings(max_examples=60)
@given(
    st.lists(st.lists(changes, max_size=8), min_size=1, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), fences), max_size=2),
    st.lists(st.tuples(st.integers(0, 9), conflicts), max_size=1),
    rows,
    st.lists(st.integers(0, 200), max_size=2),
    st.lists(st.integers(1, 9), max_size=2),
    st.none() | st.integers(0, 10),
)
def test_folded_changes_leave_what_the_exact_path_leaves(
    template, folds, history, fences, conflicts, plain, cuts, ends, altered
):
    """Most changes are possible. A batch may begin before the progress, as after a crash; the
    publisher may alter the table.
    """
    for number, step in fences:
        history[number % len(history)].append(step)
    there = {1: set(plain), 6: set(plain)}
    transactions = []
    for number, steps in enumerate(history, start=1):
        possible = [step.possible(there[step.table]).message() for step in steps]
        possible += [step.message() for place, step in conflicts if place % len(history) == number - 1]
        transactions.append(transaction(1000 * number, *possible, xid=number))
    until = len(transactions) if altered is None else altered
    batches = []
    for end in sorted({min(end, len(transactions)) for end in ends} | {len(transactions)}):
        before, after = transactions[: min(end, until)], transactions[min(end, until) : end]
        frames = _cut([message for one in before for message in one], cuts, SHAPES)
        frames += _cut([message for one in after for message in one], cuts, [*SHAPES, ALTERED])
        batches.append((frames, LSN(1000 * end)))
    with target_with(template, plain, set()) as one, target_with(template, plain, set()) as two:
        exact = applied(ExactApplier, one, batches, restarts=True)
        folds.clear()
        fast = applied(BulkApplier, two, batches, restarts=True)
    event("stopped" if any(isinstance(one, tuple) for one in exact) else "applied")
    event("coalesced" if any(folds) else "not coalesced")
    assert fast == exact


@pytest.fixture(scope="module")
def folds() -> Iterator[list[bool]]:
    """For each table of each window of an example, whether it was coalesced."""
    made: list[bool] = []
    ever: list[bool] = []

    def recorded(*arguments: Any) -> Any:
        result = coalesce.coalesced(*arguments)
        made.append(result is not None)
        ever.append(result is not None)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder, "coalesced", recorded)
        yield made
    assert any(ever)


@pytest.fixture(autouse=True, scope="module")
def _always_reorder() -> Iterator[None]:
    """Reorders and merges short pieces too, and however little that saves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder, "_LEAST_FOLDED", 1)
        patch.setattr(reorder, "_LEAST_RUNS", 0)
        patch.setattr(reorder, "_LEAST_SAVED", 0)
        patch.setattr(reorder, "_LEAST_MESSAGES", 1)
        yield


# Values that the target cannot hold ---------------------------------------------------------------

LIMITED = relation("public.limited", {"k": "int4", "v": "text", "n": "numeric"}, ["k"], oid=7)
WHOLE = relation("public.whole", {"v": "text", "n": "numeric"}, identity="f", oid=8)
REPLACED = (
    "SELECT * FROM limited ORDER BY k",
    "SELECT * FROM whole ORDER BY v, n",
    (
        "SELECT nspname, relname, columnname, key_columns, replaced, first_lsn, last_lsn FROM subscriber_replaced_value"
        " ORDER BY relname, columnname"
    ),
    (
        "SELECT relation, columnname, remote_lsn, key_values, replaced_value FROM subscriber_replaced_row"
        " ORDER BY relation, columnname, replacedid"
    ),
    "SELECT remote_lsn FROM subscriber_replication_origin_status",
    "SELECT relation, conflict_type, remote_commit_lsn FROM subscriber_conflict ORDER BY conflictid",
)
limited_values = st.tuples(
    st.sampled_from(["a", "abc", "toolong"]), st.sampled_from(["1", "NaN", "Infinity", "123", None])
)
limited_steps = st.tuples(st.sampled_from(["U", "U", "U", "I", "D", "W"]), st.integers(0, 3), limited_values)


def limited_message(step: tuple[str, int, tuple[str, str | None]], there: set[int]) -> m.Message:
    """A change of row ``key``, or of a row without a key; it is possible."""
    what, key, row = step
    if what == "W":
        return m.Insert(8, values(*row))
    if key not in there:
        there.add(key)
        return m.Insert(7, values(str(key), *row))
    if what == "D":
        there.remove(key)
        return m.Delete(7, "K", values(str(key), None, None))
    return m.Update(7, None, None, values(str(key), *row))


@contextmanager
def limited_target(folder: str, name: str) -> Iterator[Target]:
    with open_target(f"sqlite:///{Path(folder, name)}") as target:
        with target.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, FIRST)
            # As create_tables declares them: three characters, and two digits that are not
            # infinite.
            connection.exec_driver_sql(
                "CREATE TABLE limited (k INT PRIMARY KEY, v CHARACTER VARYING(3), n NUMERIC_TEXT(2,0))"
            )
            connection.exec_driver_sql("CREATE TABLE whole (v CHARACTER VARYING(3), n NUMERIC_TEXT(2,0))")
        yield target


@settings(max_examples=60)
@given(
    st.lists(st.lists(limited_steps, min_size=1, max_size=8), min_size=1, max_size=10),
    st.lists(st.integers(0, 200), max_size=4),
    st.sampled_from(["null", "public.limited.v = null, public.whole.* = null", "null, public.limited.n = stop"]),
    st.integers(1, 10),
)
def test_both_paths_replace_and_count_the_same_values(history, cuts, rules, together):
    there: set[int] = set()
    transactions = [
        transaction(1000 * number, *(limited_message(step, there) for step in steps), xid=number)
        for number, steps in enumerate(history, start=1)
    ]
    batches = []
    for first in range(0, len(transactions), together):
        part = transactions[first : first + together]
        frames = _cut([message for one in part for message in one], cuts, [LIMITED, WHOLE])
        batches.append((frames, LSN(1000 * (first + len(part)))))
    obeyed = obeying(unrepresentable_values=parse_value_rules(rules), log_conflict_values=True)
    left = []
    with tempfile.TemporaryDirectory() as folder:
        for applier in (ExactApplier, BulkApplier):
            with limited_target(folder, applier.__name__) as target:
                left.append(applied(partial(applier, read_rules=lambda _: obeyed), target, batches, REPLACED))
    event("replaced" if left[0][-4] else "nothing replaced")
    assert left[0] == left[1]


# Deleted rows -------------------------------------------------------------------------------------

DELETED = (
    "SELECT relation, deletedrow, origin, round, count(*) FROM subscriber_deleted_row GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3",
)
retained_steps = st.lists(
    st.builds(Step, st.sampled_from(["insert", "update", "delete", "delete", "move"]), keys, keys, texts), max_size=6
)
local_statements = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "DELETE FROM plain WHERE k = ?",
                "INSERT OR IGNORE INTO plain VALUES (?, 'local', NULL)",
                "UPDATE OR IGNORE plain SET k = k + 1 WHERE k = ?",
            ]
        ),
        keys,
    ),
    max_size=3,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(local_statements, retained_steps), min_size=1, max_size=8), rows)
def test_the_bulk_path_finds_the_deleted_rows_that_the_exact_path_finds(template, history, plain):
    """Before each transaction, somebody changes the target."""

    def retaining(applier_type: Callable[..., ExactApplier], target: Target) -> list[object]:
        with target.begin() as connection:
            table = target.shapes.reflect(connection, "public", "plain")
            assert table is not None
            record_deleted_rows(connection, target, table)
        rules = Rules(retains=True, records=True)
        applier = applier_type(target, subscription="s", subid=1, read_rules=lambda _: rules)
        left: list[object] = []
        done = FIRST
        for number, (statements, steps) in enumerate(history, start=1):
            with target.begin() as connection:
                for statement, key in statements:
                    connection.exec_driver_sql(statement, (key,))
            messages = transaction(1000 * number, *(step.message() for step in steps), xid=number)
            frames = _cut(messages, (), SHAPES)
            try:
                done = apply_batch(applier, partial(iter, frames), done, LSN(1000 * number)).progress
            except SubscriberError as error:
                left.append(error.report())
                break
        with target.begin() as connection:
            return left + [connection.exec_driver_sql(query).all() for query in (*SEEN, *DELETED)]

    with target_with(template, plain, set()) as one, target_with(template, plain, set()) as two:
        exact, fast = retaining(ExactApplier, one), retaining(BulkApplier, two)
    event("update_deleted" if "update_deleted" in str(exact) else "no update_deleted")
    assert fast == exact
