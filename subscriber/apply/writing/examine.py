"""Examine the run that stopped a batch: find the change that failed, and the keys that it violates.

::

    run of 1000 changes ─▶ halves, each inside a savepoint ─▶ the first one that fails ─▶ its collisions, before it is tried again

If the target has no savepoints, each change of the run is examined before it is executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from subscriber.apply.conflicts.collisions import Collisions, find_collisions
from subscriber.apply.conflicts.conflict import NOWHERE, ChangePlace, Conflict
from subscriber.apply.walk import Run
from subscriber.apply.writing.change_writer import ChangeWriter
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.errors import ConflictError


class ExaminedError(Exception):
    """The examination is over, and everything that was done for it must be rolled back.

    Attributes:
        collisions: the result; None where the conflict no longer exists.
    """

    def __init__(self, collisions: Collisions | None = None) -> None:
        super().__init__()
        self.collisions = collisions


def refined(conflict: Conflict, collisions: Collisions | None) -> Conflict | None:
    """The conflict with the keys that were found; None where no key was found, and nothing else is
    known. With more than one key its kind changes (rule C22).
    """
    if collisions is None or not (collisions.violated or collisions.hint):
        return None
    return replace(
        conflict,
        kind=ConflictKind.MULTIPLE_UNIQUE_CONFLICTS if len(collisions.violated) > 1 else conflict.kind,
        relation=conflict.relation if collisions.leaf is None else ".".join(collisions.leaf),
        violated=collisions.violated,
        search=collisions.search,
        remote_row=collisions.remote_row,
        hint=collisions.hint,
    )


class ConflictExaminer(ChangeWriter):
    """Writes changes up to the run that has failed, and examines that run.

    Args:
        failed: the place of the first change of that run.
    """

    def __init__(self, *arguments: Any, failed: ChangePlace, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._failed = failed

    def write(self, run: Run, place: ChangePlace = NOWHERE) -> Sequence[tuple[Conflict, int]]:
        """See :meth:`ChangeWriter.write`.

        Raises:
            ExaminedError: the run that had failed was examined.
        """
        passed = (
            place.final_lsn != self._failed.final_lsn or place.changes + run.stop - run.start <= self._failed.changes
        )
        if passed:
            return super().write(run, place)
        raise ExaminedError(self._find(run, place))

    def _find(self, run: Run, place: ChangePlace) -> Collisions | None:
        if self._target.capabilities.savepoints:
            number = self._first_failure(run, place)
            return None if number is None else self._look_at(run, number)
        table = self._relations.open(self._groups.group(run.group).relation).table
        # The transaction cannot be queried any more when it has refused a change.
        hint = self._target.shapes.refused_key_hint(self._connection, table)
        for number in range(run.start, run.stop):
            found = self._look_at(run, number)
            if found.violated:
                return found
            try:
                super().write(Run(run.group, number, number + 1), place)
            except ConflictError:
                return replace(found, hint=hint)
        return None

    def _first_failure(self, run: Run, place: ChangePlace) -> int | None:
        """The number of the first change that fails; the changes before it are executed."""
        start, stop = run.start, run.stop
        if self._succeeds(Run(run.group, start, stop), place):
            return None
        while stop - start > 1:
            middle = (start + stop) // 2
            if self._succeeds(Run(run.group, start, middle), place):
                start = middle
            else:
                stop = middle
        return start

    def _succeeds(self, run: Run, place: ChangePlace) -> bool:
        try:
            with self._connection.begin_nested():
                super().write(run, place)
        except ConflictError:
            return False
        return True

    def _look_at(self, run: Run, number: int) -> Collisions:
        group = self._groups.group(run.group)
        local = self._relations.open(group.relation)
        identity = None if group.action == "I" else self._statements.identity(local)
        change = group.slice(number, number + 1)
        return find_collisions(self._target, self._connection, local, change, identity, values=self._shows_values)
