"""Changes wait, and are sent to the target together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.apply.regrouping.regroup import OrderMatters
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.errors import TargetRelationError, TargetUnavailable
from subscriber.protocol import messages as m
from subscriber.targets import Target
from subscriber.targets.generic.errors import GenericErrors
from tests.changes import T, U, delete, insert, update
from tests.frames import frame
from tests.runs import runs

pytestmark = pytest.mark.usefixtures("tables")


class RecordedPipeline:
    """A pipeline that executes its statements one by one."""

    def __init__(self) -> None:
        self.sent: list[list[str]] = []

    def execute(self, connection: sa.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[int]:
        self.sent.append([sql.split()[0] for sql, _ in statements])
        with GenericErrors("the target").reporting():
            return [connection.exec_driver_sql(sql, tuple(row)).rowcount for sql, row in statements]


@pytest.fixture
def pipeline(target) -> RecordedPipeline:
    target.pipeline = RecordedPipeline()
    found: RecordedPipeline = target.pipeline
    return found


def write_later(target: Target, *changes: m.Message, flushes: bool = True) -> None:
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=lambda: None)
        made = frame([T, U], changes)
        using.open_frame(made)
        using.attempt()
        for run in runs(made):
            assert using.write(run) == ()
        if flushes:
            using.flush()
            using.flush()


def test_changes_wait_and_are_sent_together(target, pipeline, rows):
    write_later(target, insert("1", "x", None), update(("1", "y", m.UNCHANGED)), insert("2", "x", None), delete("2"))
    assert pipeline.sent == [["INSERT", "UPDATE", "INSERT", "DELETE"]]
    assert [(row["a"], row["b"]) for row in rows()] == [(1, "y")]


@pytest.mark.parametrize("change", [update(("7", "x", None)), delete("7")])
def test_a_missing_row_is_found_before_the_frame_ends(target, pipeline, rows, change):
    """C18: the exact path then records the conflict"""
    with pytest.raises(OrderMatters):
        write_later(target, insert("1", "x", None), change, insert("2", "x", None))
    assert rows() == []


def test_changes_that_wait_are_executed_before_an_error_is_raised(target, pipeline, execute):
    """C37: an error of an earlier change comes first"""
    execute("DROP TABLE u")
    with pytest.raises(TargetRelationError):
        write_later(target, insert("1", "x", None), insert("1", "x", into=2))
    assert pipeline.sent == [["INSERT"]]
    with pytest.raises(OrderMatters):
        write_later(target, delete("7"), insert("1", "x", into=2))


def test_a_change_that_fails_is_left_to_the_exact_path(target, pipeline, rows):
    with pytest.raises(OrderMatters):
        write_later(target, insert("1", "x", None), insert("1", "x", None))
    assert rows() == []


def test_an_error_that_is_not_of_a_change_is_raised(target, pipeline):
    pipeline.execute = lambda *_: (_ for _ in ()).throw(TargetUnavailable("gone"))
    with pytest.raises(TargetUnavailable):
        write_later(target, insert("1", "x", None))


def test_changes_do_not_wait_where_origins_are_compared(target, pipeline, rows):
    """C19"""

    class Origins:
        def others(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
            return sa.false()

    target.origins = Origins()
    write_later(target, insert("1", "x", None), flushes=False)
    assert (pipeline.sent, len(rows())) == ([], 1)


def test_changes_that_a_trigger_may_suppress_do_not_wait(target, pipeline, rows, monkeypatch):
    """A row that exists would look like one that is missing."""
    monkeypatch.setattr(target.writing, "may_suppress", lambda _: True)
    write_later(target, insert("1", "x", None), flushes=False)
    assert (pipeline.sent, len(rows())) == ([], 1)


def test_changes_that_wait_are_executed_before_a_truncate(target, pipeline, rows):
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, check=lambda: None)
        made = frame([T], [insert("1", "x", None)])
        using.open_frame(made)
        using.attempt()
        using.write(runs(made)[0])
        using.truncate([T], restart_identity=False)
    assert (pipeline.sent, rows()) == ([["INSERT"]], [])
