"""The columnar transformation gives the same as a model that handles one change at a time, as
pgoutput_change does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Action, ChangeGroup
from subscriber.postgres.publication.combine import ROW_OPERATIONS, RelationPlan
from subscriber.postgres.publication.definition import Operation
from subscriber.postgres.publication.transform import RowFilter, transform
from tests.frames import frame, relation, values
from tests.publications import python_filter

NAMES = ("a", "b", "c")
COLUMNS = dict.fromkeys(NAMES, "int4")

Value = str | m.Absence | None
Row = dict[str, Value]
"""A row: values by column. UNCHANGED is a value that was not sent."""


@dataclass(frozen=True)
class Change:
    """A change as it was received, or as it is sent."""

    action: str
    old_kind: m.OldKind | None
    old: Row | None
    new: Row | None


@dataclass(frozen=True)
class Case:
    """A table, its publication, and changes of it.

    Attributes:
        source: the relation that changes come under.
        target: the relation that they are published as.
        operations: what is published.
        thresholds: for the operations that are filtered: column and value; true where the column is
            above it, null where it is NULL.
        changes: as they come.
    """

    source: m.Relation
    target: m.Relation
    operations: frozenset[Operation]
    thresholds: dict[Operation, tuple[str, int]]
    changes: list[Change]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    identity = draw(st.sampled_from("fdn"))
    key = draw(st.sets(st.sampled_from(NAMES), min_size=1)) if identity == "d" else set()
    source = relation("public.leaf", COLUMNS, sorted(key), identity=identity, oid=1)
    target = _target(draw, source)
    known = NAMES if identity == "f" else tuple(sorted(key))
    # Only columns of the replica identity can be filtered (rule B33). Inserts have all columns.
    thresholds: dict[Operation, tuple[str, int]] = {}
    for operation in ROW_OPERATIONS:
        columns = NAMES if operation == "insert" else known
        if draw(st.booleans()) and columns:
            thresholds[operation] = draw(st.tuples(st.sampled_from(columns), st.integers(-1, 1)))
    return Case(
        source,
        target,
        draw(st.frozensets(st.sampled_from(ROW_OPERATIONS))),
        thresholds,
        draw(st.lists(_changes(identity, key), max_size=20)),
    )


def _target(draw: st.DrawFn, source: m.Relation) -> m.Relation:
    names = draw(st.permutations(NAMES))[: draw(st.integers(1, 3))]
    if draw(st.booleans()):
        columns = tuple(column for column in source.columns if column.name in names)
        return m.Relation(source.relation_id, "public", "leaf", source.replica_identity, columns)
    identity = draw(st.sampled_from("fdn"))
    key = draw(st.sets(st.sampled_from(NAMES), min_size=1)) if identity == "d" else set()
    return relation("public.root", dict.fromkeys(names, "int4"), sorted(key), identity=identity, oid=2)


NULLABLE = st.none() | st.integers(-2, 2).map(str)
PRESENT = st.integers(-2, 2).map(str)


@st.composite
def _changes(draw: st.DrawFn, identity: str, key: set[str]) -> Change:
    def row() -> Row:
        return {name: draw(PRESENT if name in key else NULLABLE) for name in NAMES}

    action = draw(st.sampled_from("IUU" if identity == "n" else "IUUD"))
    if action == "I":
        return Change("I", None, None, row())
    old = row()
    if action == "D":
        return _with_old(Change("D", None, None, None), identity, key, old)
    new = row()
    unchanged = draw(st.sets(st.sampled_from(NAMES)))
    for name in unchanged:
        # An out-of-line value is not NULL, and is the same in both tuples.
        old[name] = new[name] = old[name] or "1"
    # A new tuple without an old one: no column of the identity has changed, and none is out of line
    # (section B.3).
    alone = identity == "n" or (identity == "d" and not unchanged & key and all(old[name] == new[name] for name in key))
    sent = {name: m.UNCHANGED if name in unchanged else value for name, value in new.items()}
    change = Change("U", None, None, sent)
    return change if alone else _with_old(change, identity, key, old)


def _with_old(change: Change, identity: str, key: set[str], old: Row) -> Change:
    if identity == "f":
        return Change(change.action, "O", old, change.new)
    return Change(change.action, "K", {name: old[name] if name in key else None for name in NAMES}, change.new)


# The model ----------------------------------------------------------------------------------------


def model(case: Case, change: Change) -> Change | None:
    """The model of pgoutput_change and pgoutput_row_filter for one change. None means that nothing
    is sent.
    """
    operation: Operation = {"I": "insert", "U": "update", "D": "delete"}[change.action]  # type: ignore[assignment]  # of a str
    if operation not in case.operations:
        return None
    action, new = change.action, change.new
    if operation in case.thresholds:
        if change.old is None or change.new is None:
            row = change.new if change.old is None else change.old
            if row is None or not _is_above(row, case.thresholds[operation]):
                return None
        else:
            completed = {
                name: change.old[name] if value is m.UNCHANGED and change.old[name] is not None else value
                for name, value in change.new.items()
            }
            before = _is_above(change.old, case.thresholds[operation])
            after = _is_above(completed, case.thresholds[operation])
            if not before and not after:
                return None
            if after and not before:
                action, new = "I", completed
            elif before and not after:
                action = "D"
    return _written(case.target, Change(action, change.old_kind, change.old, new))


def _is_above(row: Row, threshold: tuple[str, int]) -> bool:
    column, least = threshold
    value = row[column]
    assert not isinstance(value, m.Absence)
    return value is not None and int(value) > least


def _written(target: m.Relation, change: Change) -> Change:
    """The model of logicalrep_write_insert, _update and _delete. Of a key tuple only the identity's
    columns are read (rule A9).
    """
    names = [column.name for column in target.columns]
    new = None if change.action == "D" or change.new is None else {name: change.new[name] for name in names}
    if change.action == "I" or change.old is None:
        return Change(change.action, None, None, new)
    if target.replica_identity == "f":
        return Change(change.action, "O", {name: change.old[name] for name in names}, new)
    keys = [column.name for column in target.columns if column.is_identity]
    return Change(change.action, "K", {name: change.old[name] for name in keys}, new)


# The columnar transformation ----------------------------------------------------------------------


def ours(case: Case) -> list[Change | None]:
    filters: dict[Operation, RowFilter] = {
        operation: python_filter(column, _above(column, least))
        for operation, (column, least) in case.thresholds.items()
    }
    plan = RelationPlan(case.source, case.target, None, case.operations)
    sent: list[Change | None] = [None] * len(case.changes)
    for group in frame([case.source], [_message(case.source, change) for change in case.changes]).groups:
        for part in transform(group, plan, filters):
            assert part.relation == case.target
            for place, position in enumerate(part.positions.tolist()):
                assert sent[position] is None
                sent[position] = _change(part, place)
    return sent


def _above(column: str, least: int):
    return lambda row: None if row[column] is None else row[column] > least


def _message(source: m.Relation, change: Change) -> m.Message:
    old = None if change.old is None else values(*change.old.values())
    new = None if change.new is None else values(*change.new.values())
    if change.action == "I":
        assert new is not None
        return m.Insert(source.relation_id, new)
    if change.action == "U":
        assert new is not None
        return m.Update(source.relation_id, change.old_kind, old, new)
    assert change.old_kind is not None and old is not None
    return m.Delete(source.relation_id, change.old_kind, old)


def _change(group: ChangeGroup, place: int) -> Change:
    action: Action = group.action
    old = None if group.old is None else _texts(group.old.slice(place, 1).to_pylist()[0])
    new = None
    if group.new is not None:
        row = _texts(group.new.slice(place, 1).to_pylist()[0])
        new = {column.name: row.get(column.name, m.UNCHANGED) for column in group.relation.columns}
    return Change(action, group.old_kind, old, new)


def _texts(row: dict[str, int | None]) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}


def _expected(case: Case, changes: Sequence[Change]) -> list[Change | None]:
    return [model(case, change) for change in changes]


@given(cases())
def test_a_group_is_sent_as_its_single_changes_are(case):
    """Rules A9, A10, B10-B19; invariants absence_is_typed and commit_order."""
    assert ours(case) == _expected(case, case.changes)
