"""Changes of a frame in another order, and the places where the publisher's order stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from subscriber.apply import reorder
from subscriber.apply.coalesce import has_own_columns, identifies
from subscriber.apply.relations.target_relations import RelationMap
from subscriber.apply.reorder import FreeKey, MayFold, Window, may_reorder, reordered
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.encode_message import encode
from tests.changes import T, delete, insert, update
from tests.frames import frame, prepared, relation, transaction, values

LOG = relation("public.log", {"v": "text"}, oid=3)
PAIR = relation("public.pair", {"a": "int4", "b": "text", "v": "text"}, ["a", "b"], oid=4)
SHAPES = [T, LOG, PAIR]
KEYS: dict[str, tuple[str, ...]] = {"t": ("a",), "log": (), "pair": ("a", "b")}


@pytest.fixture(autouse=True, scope="module")
def _reorder_small_frames() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reorder, "_LEAST_RUNS", 0)
        yield


def set_to(key: str, value: str) -> m.Update:
    return update((key, value, value))


def free(group) -> tuple[str, ...]:
    return KEYS[group.relation.name]


def never(_group: ChangeGroup) -> bool:
    return False


def written(*messages: m.Message, independent_key: FreeKey = free, may_coalesce: MayFold = never) -> list[str]:
    """What is written, in order: a control as its letter, a statement as its action and its rows'
    keys (``U1,2``). The statements of a window come after its controls, in brackets.
    """
    made = frame(SHAPES, messages)
    found: list[str] = []
    for step in reordered(made, independent_key, may_coalesce):
        if isinstance(step, Control):
            found.append(chr(step.message[0]))
        elif isinstance(step, Window):
            found += ["[", *(chr(control.message[0]) for control in step.controls)]
            found += [_shown(one if isinstance(one, ChangeGroup) else one.of(made)) for one in step.writes]
            found.append("]")
        else:
            found.append(_shown(made.groups[step.group].slice(step.start, step.stop)))
    return found


def _shown(changes: ChangeGroup) -> str:
    batch = changes.new if changes.old is None else changes.old
    assert batch is not None
    return changes.action + ",".join(str(value) for value in batch.column(0).to_pylist())


def test_small_transactions_become_a_statement_for_each_action():
    """Deletes come first, then updates, then inserts."""
    messages = [
        message
        for number in range(3)
        for message in transaction(
            1000 * (number + 1), set_to(str(number), "x"), insert(str(10 + number), "y", "y"), delete(str(20 + number))
        )
    ]
    assert written(*messages) == ["[", *"BC" * 3, "D20,21,22", "U0,1,2", "I10,11,12", "]"]


def test_the_changes_of_a_row_keep_their_order():
    """The second change of a key is in the second round."""
    messages = [
        *transaction(1000, insert("1", "x", "x"), set_to("2", "x"), set_to("3", "x")),
        *transaction(2000, set_to("1", "y"), insert("4", "y", "y"), set_to("5", "x")),
        *transaction(3000, delete("1"), insert("6", "y", "y"), set_to("7", "x")),
        *transaction(4000, insert("1", "z", "z"), set_to("8", "x"), insert("9", "y", "y"), set_to("10", "x")),
    ]
    assert written(*messages) == [
        "[", *"BC" * 4, "U2,3,5,7,8,10", "I1,4,6,9", "U1", "D1", "I1", "]",
    ]  # fmt: skip


def test_a_stretch_that_saves_too_few_statements_is_walked():
    assert written(*transaction(1000, set_to("1", "x"), delete("1"))) == ["B", "U1", "D1", "C"]


def test_nothing_is_asked_for_a_frame_with_few_runs(monkeypatch):
    """Whether the order matters costs a query of the target."""
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 3)

    def asked(_group) -> None:
        raise AssertionError("the target was asked")

    assert written(*transaction(1000, set_to("1", "x"), delete("1")), independent_key=asked) == ["B", "U1", "D1", "C"]


def test_a_long_run_of_updates_is_a_stretch_of_its_own(monkeypatch):
    """Its rows are different, so that a target can write them with one statement."""
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 32)
    monkeypatch.setattr(reorder, "_LONG_RUN", 6)
    updates = [set_to(str(number), "x") for number in range(6)]
    assert written(*transaction(1000, *updates)) == ["[", "B", "C", "U0,1,2,3,4,5", "]"]
    assert written(*transaction(1000, *updates[:5])) == ["B", "U0,1,2,3,4", "C"]


def test_a_long_run_of_inserts_keeps_its_place(monkeypatch):
    """It is written in bulk there, too."""
    monkeypatch.setattr(reorder, "_LEAST_RUNS", 32)
    monkeypatch.setattr(reorder, "_LONG_RUN", 6)
    inserts = [insert(str(number), "x", "x") for number in range(6)]
    assert written(*transaction(1000, *inserts)) == ["B", "I0,1,2,3,4,5", "C"]


def test_a_change_of_a_key_is_written_at_its_place():
    changes = [
        message for number in range(4) for message in (set_to(str(number), "x"), insert(str(10 + number), "x", "x"))
    ]
    move = update(("7", "x", "x"), key=("1", None, None))
    assert written(*transaction(1000, *changes, move, *changes)) == [
        "[", "B", "U0,1,2,3", "I10,11,12,13", "]", "U1", "[", "C", "U0,1,2,3", "I10,11,12,13", "]",
    ]  # fmt: skip


def test_an_old_key_that_is_the_same_does_not_separate_stretches():
    changes = [
        message
        for number in range(4)
        for message in (
            update((str(number), "x", "x"), key=(str(number), None, None)),
            insert(str(10 + number), "x", "x"),
        )
    ]
    assert written(*transaction(1000, *changes)) == ["[", "B", "C", "U0,1,2,3", "I10,11,12,13", "]"]


def test_truncate_separates_stretches():
    changes = [
        message for number in range(4) for message in (set_to(str(number), "x"), insert(str(10 + number), "x", "x"))
    ]
    truncate = m.Truncate((T.relation_id,), cascade=False, restart_identity=False)
    assert [one for one in written(*transaction(1000, *changes, truncate, *changes)) if one in "[T]"] == list("[]T[]")


def test_tables_whose_order_matters_are_written_at_their_place():
    changes = [
        message for number in range(4) for message in (set_to(str(number), "x"), insert(str(10 + number), "x", "x"))
    ]
    logged = m.Insert(LOG.relation_id, values("seen"))

    def only_t(group) -> tuple[str, ...] | None:
        return ("a",) if group.relation is T or group.relation.name == "t" else None

    assert written(*transaction(1000, *changes, logged, *changes), independent_key=only_t) == [
        "[", "B", "U0,1,2,3", "I10,11,12,13", "]", "Iseen", "[", "C", "U0,1,2,3", "I10,11,12,13", "]",
    ]  # fmt: skip


def test_rows_without_a_key_are_inserted_in_one_round():
    changes = [
        message for number in range(3) for message in (m.Insert(LOG.relation_id, values("same")), set_to("1", "x"))
    ]
    assert written(*transaction(1000, *changes, set_to("2", "x"), m.Insert(LOG.relation_id, values("last")))) == [
        "B", *["Isame", "U1"] * 2, "Isame", "U1,2", "Ilast", "C",
    ]  # fmt: skip
    changes = [
        message
        for number in range(3)
        for message in (m.Insert(LOG.relation_id, values("same")), set_to(str(number), "x"))
    ]
    assert written(*transaction(1000, *changes)) == ["[", "B", "C", "U0,1,2", "Isame,same,same", "]"]


def test_keys_of_several_columns_are_compared_as_a_whole():
    def pair(a: str, b: str) -> m.Insert:
        return m.Insert(PAIR.relation_id, values(a, b, "x"))

    changes = [message for n in "123" for message in (pair(n, "x"), set_to(n, "x"), pair(n, "y"), set_to(n + "0", "x"))]
    assert written(*transaction(1000, *changes)) == ["[", "B", "C", "U1,10,2,20,3,30", "I1,1,2,2,3,3", "]"]


def test_equal_keys_of_different_tables_are_different_rows():
    changes = [
        message
        for n in "123"
        for message in (set_to(n, "x"), m.Update(PAIR.relation_id, None, None, values(n, "b", "x")))
    ]
    assert written(*transaction(1000, *changes)) == ["[", "B", "C", "U1,2,3", "U1,2,3", "]"]


def test_a_key_with_null_keeps_the_order_of_its_table():
    """Such a change finds no row, and the exact walk says so."""
    changes = [message for n in "123" for message in (set_to(n, "x"), insert(n + "0", "x", "x"))]
    missing = m.Delete(T.relation_id, "K", values(None, None, None))
    assert "[" not in written(*transaction(1000, *changes, missing))


def test_the_changes_between_two_controls_are_counted():
    messages = [
        *transaction(1000, set_to("1", "x"), insert("5", "x", "x"), set_to("2", "x")),
        *transaction(2000, insert("6", "x", "x"), set_to("3", "x")),
    ]
    (window,) = reordered(frame(SHAPES, messages[:-1]), free, never)
    assert isinstance(window, Window)
    assert window.counts.tolist() == [0, 3, 0]
    assert window.rest == 2


@pytest.fixture
def _stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are reordered however little that saves."""
    monkeypatch.setattr(reorder, "_LEAST_SAVED", 0)


@pytest.mark.usefixtures("_stretches")
def test_changes_of_a_row_are_folded_table_by_table():
    """A table that may not be coalesced is written in rounds."""
    pairs = [m.Update(PAIR.relation_id, None, None, values(n, "b", "x")) for n in "1212"]
    found = written(
        *transaction(1000, set_to("2", "x"), *(set_to("1", "x") for _ in range(9)), *pairs),
        may_coalesce=lambda group: group.relation == T,
    )
    assert found == ["[", "B", "C", "U2,1", "U1,2", "U1,2", "]"]


@pytest.mark.usefixtures("_stretches")
def test_few_changes_are_not_folded():
    """To ask the target whether it accepts all values would cost more."""
    found = written(*transaction(1000, *(set_to("1", "x") for _ in range(8))), may_coalesce=lambda _: True)
    assert found == ["[", "B", "C", *["U1"] * 8, "]"]


@pytest.mark.usefixtures("_stretches")
def test_changes_of_which_few_have_the_same_row_are_not_folded():
    """Folding would cost more than it saves."""
    repeated = [set_to("1", "x") for _ in range(9)]
    found = [
        len(
            written(
                *transaction(1000, *repeated, *(set_to(str(n), "x") for n in range(2, rows))),
                may_coalesce=lambda _: True,
            )
        )
        for rows in (121, 122)
    ]
    assert found == [5, 5 + 8]


@pytest.mark.usefixtures("_stretches")
def test_a_group_is_asked_about_once_and_a_conflict_is_not_folded():
    asked: list[str] = []

    def may_coalesce(group: ChangeGroup) -> bool:
        asked.append(group.action)
        return True

    twice = [insert("1", "x", "x")] * 9
    fence = m.Truncate((LOG.relation_id,), cascade=False, restart_identity=False)
    found = written(*transaction(1000, *twice, fence, *twice), may_coalesce=may_coalesce)
    assert found.count("I1") == 18
    assert asked == ["I"]


def test_frames_with_prepared_transactions_are_not_reordered():
    assert may_reorder(frame(SHAPES, transaction(1000, set_to("1", "x"))))
    assert not may_reorder(frame(SHAPES, prepared(1000, set_to("1", "x"))))
    rollback = encode(m.RollbackPrepared(900, 1000, 1, 2, 7, "gid"))
    assert not may_reorder(Frame((), Controls.of([Control(0, rollback)])))


def test_an_empty_frame_has_no_steps():
    assert list(reordered(Frame(()), free, never)) == []


one_change = st.tuples(st.sampled_from("UID"), st.integers(0, 3).map(str))


@given(st.lists(st.lists(one_change, max_size=5), max_size=6))
def test_each_change_is_written_once_and_each_rows_changes_in_order(history):
    """fast_equals_exact"""
    make: dict[str, Callable[[str], m.Message]] = {
        "U": lambda key: set_to(key, "x"),
        "I": lambda key: insert(key, "x", "x"),
        "D": delete,
    }
    messages = [
        message
        for number, changes in enumerate(history, start=1)
        for message in transaction(1000 * number, *(make[action](key) for action, key in changes))
    ]
    sent: dict[str, list[str]] = {}
    for changes in history:
        for action, key in changes:
            sent.setdefault(key, []).append(action)
    found: dict[str, list[str]] = {}
    for step in written(*messages):
        if len(step) > 1:
            for key in step[1:].split(","):
                found.setdefault(key, []).append(step[0])
    assert found == sent


# The order of changes does not matter only where nothing connects their rows (invariant
# fast_equals_exact).


S = relation("public.s", {"a": "int4", "b": "text", "c": "text"}, ["a"])
SAME = "CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT)"


@pytest.fixture
def independent_key(target) -> Callable[..., tuple[str, ...] | None]:
    def ask(change: m.Message, remote: m.Relation = S) -> tuple[str, ...] | None:
        made = frame([remote], [change])
        with target.begin() as connection:
            return ChangeWriter(target, connection, {}).independent_key(made.groups[0])

    return ask


@pytest.mark.parametrize("change", [insert("1", "x", "y"), update(("1", "x", "y")), delete("1", None, None)])
def test_rows_are_told_apart_by_the_key(execute, independent_key, change):
    execute(SAME)
    assert independent_key(change) == ("a",)


def test_new_rows_of_a_table_without_a_key_need_none(execute, independent_key):
    execute("CREATE TABLE s (a INTEGER, b TEXT, c TEXT)")
    assert independent_key(insert("1", "x", "y")) == ()
    assert independent_key(delete("1", None, None)) is None


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT UNIQUE)",
        "CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT, own TEXT)",
        "CREATE TABLE s (a INTEGER, b TEXT PRIMARY KEY, c TEXT)",
    ],
    ids=["a second unique key", "a column of the target's own", "another key than the publisher's"],
)
def test_the_order_matters_where_rows_may_meet(execute, independent_key, table):
    execute(table)
    assert independent_key(insert("1", "x", "y")) is None


def test_the_order_matters_where_the_table_does_not_exist(independent_key):
    """The exact path reports it at its place."""
    assert independent_key(insert("1", "x", "y")) is None


@pytest.mark.parametrize(
    ("type_name", "expected"), [("int4", True), ("uuid", True), ("numeric", False), ("bpchar", False)]
)
def test_a_key_identifies_a_row_where_equal_values_have_the_same_text(target, execute, type_name, expected):
    """1.0 and 1.00 are equal numerics, and so are texts of type char(n) with more blanks."""
    declared = {"int4": "INTEGER", "numeric": "NUMERIC_TEXT"}.get(type_name, "TEXT")
    execute(f"CREATE TABLE k (a {declared} PRIMARY KEY)")
    remote = relation("public.k", {"a": type_name}, ["a"])
    with target.begin() as connection:
        assert identifies(target, RelationMap(target, connection).open(remote)) is expected


@pytest.mark.parametrize(("own", "expected"), [("", False), (", own TEXT", True), (", own TEXT AS (b) STORED", False)])
def test_a_generated_column_is_none_of_the_targets_own(target, execute, own, expected):
    execute(f"CREATE TABLE s (a INTEGER PRIMARY KEY, b TEXT, c TEXT{own})")
    with target.begin() as connection:
        assert has_own_columns(RelationMap(target, connection).open(S)) is expected


def test_a_table_is_asked_once_in_a_batch(target, execute, monkeypatch):
    execute(SAME)
    asked = []

    def refuses(connection: sa.Connection, table: object) -> bool:
        asked.append(table)
        return False

    monkeypatch.setattr(target.shapes, "refuses_rows", refuses)
    made = frame([S], [insert("1", "x", "y")])
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {})
        assert [using.may_coalesce(made.groups[0]) for _ in range(3)] == [True] * 3
    assert len(asked) == 1


def test_changes_are_not_folded_where_the_table_may_refuse_rows(target, execute, monkeypatch):
    execute(SAME)
    monkeypatch.setattr(target.shapes, "refuses_rows", lambda *_: True)
    made = frame([S], [insert("1", "x", "y")])
    with target.begin() as connection:
        assert not ChangeWriter(target, connection, {}).may_coalesce(made.groups[0])
