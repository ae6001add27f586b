from __future__ import annotations

from subscriber.apply.frame_order import ChangeRun, FrameOrder, steps
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Control, Controls, Frame
from tests.frames import frame, relation, transaction, values

T = relation("public.t", {"a": "int4"}, ["a"])
U = relation("public.u", {"a": "int4"}, ["a"], oid=2)


def walked(*messages: m.Message) -> list[str]:
    """``B``, ``t+2``, ``C``: the controls and the runs with their lengths."""
    made = frame([T, U], messages)
    return [
        chr(step.message[0])
        if isinstance(step, Control)
        else f"{made.groups[step.group].relation.name}+{step.stop - step.start}"
        for step in steps(made)
    ]


def insert(relation_id: int) -> m.Insert:
    return m.Insert(relation_id, values("1"))


def test_consecutive_changes_of_a_group_are_one_run():
    assert walked(*transaction(200, insert(16384), insert(16384), insert(16384))) == ["B", "t+3", "C"]


def test_runs_follow_the_publishers_order():
    """commit_order"""
    changes = [insert(16384), insert(2), insert(2), insert(16384)]
    assert walked(*transaction(200, *changes)) == ["B", "t+1", "u+2", "t+1", "C"]


def test_a_run_never_spans_two_transactions():
    two = [*transaction(200, insert(2)), *transaction(300, insert(2))]
    assert walked(*two) == ["B", "u+1", "C", "B", "u+1", "C"]


def test_a_later_run_continues_its_group():
    made = frame([T, U], [insert(16384), insert(2), insert(16384), insert(16384)])
    runs = [step for step in steps(made) if isinstance(step, ChangeRun) and step.group == 0]
    assert runs == [ChangeRun(0, 0, 1), ChangeRun(0, 1, 3)]


def test_an_empty_frame_has_no_steps():
    assert list(steps(Frame(()))) == []


def test_controls_are_ordered_by_position():
    controls = Controls.of([Control(2, b"C"), Control(0, b"B")])
    assert [step.message for step in steps(Frame((), controls)) if isinstance(step, Control)] == [b"B", b"C"]


def test_a_slice_of_a_group_is_the_changes_of_its_run():
    made = frame([T], [m.Insert(16384, values(str(number))) for number in range(5)])
    part = made.groups[0].slice(1, 3)
    assert part.positions.tolist() == [1, 2]
    assert part.new is not None
    assert part.new.column("a").to_pylist() == [1, 2]
    assert part.old is None


def test_runs_are_counted_without_the_controls():
    made = frame([T, U], transaction(200, insert(16384), insert(16384), insert(2), insert(16384)))
    messages = FrameOrder.of(made)
    assert messages.runs(0, len(messages)) == 3
    assert messages.runs(1, 3) == 1
    assert messages.runs(0, 1) == 0
