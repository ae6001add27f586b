"""Rows that do not exist, or that another origin has written."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.apply.conflicts.conflict import Conflict, Resolution, SearchKey
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.base.errors import ConflictError
from subscriber.catalog.own_tables import ConflictKind
from tests.changes import T, delete, update
from tests.conflicts import AT
from tests.frames import frame
from tests.runs import runs

pytestmark = pytest.mark.usefixtures("tables")


def test_missing_rows_are_counted_together_without_values_and_one_by_one_with_values(target):
    made = frame([T], [delete("1", None, None), delete("2", None, None)])
    (run,) = runs(made)
    found = {}
    for shows_values in (False, True):
        with target.begin() as connection:
            using = ChangeWriter(target, connection, {}, show_values=shows_values)
            using.open_frame(made)
            found[shows_values] = [(conflict.search, number) for conflict, number in using.write(run, AT)]
    assert found[False] == [(SearchKey(("a",)), 2)]
    assert found[True] == [(SearchKey(("a",), ("1",)), 1), (SearchKey(("a",), ("2",)), 1)]


def test_a_change_that_a_trigger_has_suppressed_is_no_conflict(target, execute, monkeypatch):
    """The row exists although the row count is zero; the other row does not exist."""
    execute("INSERT INTO t (a) VALUES (1)")
    execute("CREATE TRIGGER suppress BEFORE DELETE ON t BEGIN SELECT RAISE(IGNORE); END")
    monkeypatch.setattr(target.writing, "may_suppress", lambda _: True)
    made = frame([T], [delete("1", None, None), delete("2", None, None)])
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, show_values=True)
        using.open_frame(made)
        found = [conflict.search for run in runs(made) for conflict, _ in using.write(run, AT)]
    assert found == [SearchKey(("a",), ("2",))]


class OthersWroteTheirs:
    """Another origin has written the rows that have this value."""

    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        return sa.column("b") == sa.literal_column("'theirs'")


@pytest.mark.parametrize("shows_values", [True, False])
def test_a_row_of_another_origin_is_reported_and_changed(target, execute, rows, shows_values):
    """C19"""
    target.origins = OthersWroteTheirs()
    execute("INSERT INTO t (a, b) VALUES (1, 'own'), (2, 'theirs')")
    made = frame([T], [update(("1", "new", None)), update(("2", "new", None))])
    with target.begin() as connection:
        using = ChangeWriter(target, connection, {}, show_values=shows_values)
        using.open_frame(made)
        ((conflict, number),) = (found for run in runs(made) for found in using.write(run, AT))
    assert (conflict.kind, number) == (ConflictKind.UPDATE_ORIGIN_DIFFERS, 1)
    assert (conflict.local_row is not None) is shows_values
    assert [row["b"] for row in rows()] == ["new", "new"]


def test_a_policy_may_stop_the_transaction_at_a_missing_row(target):
    class Stopping:
        version = 18

        def resolve(self, conflict: Conflict) -> Resolution:
            return Resolution.ERROR

    made = frame([T], [delete("1", None, None)])
    with pytest.raises(ConflictError, match="conflict=delete_missing"), target.begin() as connection:
        using = ChangeWriter(target, connection, {}, policy=Stopping())
        using.open_frame(made)
        using.write(runs(made)[0], AT)
