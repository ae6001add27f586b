"""The groups of a frame as they are written: with NULL in the place of values that the target
cannot hold, where the option ``unrepresentable_values`` asks for that
(:mod:`subscriber.apply.writing.unrepresentable`).

Each group is converted once for a frame, when the first of its changes is to be written.
"""

from __future__ import annotations

from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.walk import Run
from subscriber.apply.writing.pipelined_changes import PipelinedChanges
from subscriber.apply.writing.unrepresentable import Replaced, ReplacedTally, Replacement
from subscriber.errors import TargetRelationError
from subscriber.lsn import LSN
from subscriber.protocol.changes import ChangeGroup, Frame


class ReplacedGroups:
    """The groups of the open frame.

    Args:
        replacement: puts NULL in the place of values that the target cannot hold; None if the
            option does not ask for that.
        relations: the target's tables.
        pipelined: the changes that wait.
    """

    def __init__(self, replacement: Replacement | None, relations: RelationMap, pipelined: PipelinedChanges) -> None:
        self._replacement = replacement
        self._relations = relations
        self._pipelined = pipelined
        self._frame = Frame(())
        self._replaced: dict[int, Replaced] = {}

    def open_frame(self, frame: Frame) -> None:
        """Use the groups of ``frame``."""
        self._frame = frame
        self._replaced = {}

    def group(self, number: int) -> ChangeGroup:
        """A group, as it is written.

        Raises:
            TargetRelationError: the table cannot be used, or the option names a column in which
                NULL cannot be.
        """
        group = self._frame.groups[number]
        if self._replacement is None or not self._replacement.concerns(group.relation):
            return group
        if number in self._replaced:
            return self._replaced[number].group
        return self._replace(self._replacement, number, self._pipelined.open(group.relation)).group

    def may_replace(self, frame: Frame) -> bool:
        """Whether values of the open frame are replaced by NULL, or may be: the tables of all its
        groups must be known for the answer.
        """
        if self._replacement is None:
            return False
        for number, group in enumerate(frame.groups):
            if not self._replacement.concerns(group.relation):
                continue
            local = self._relations.open_unchanged(group.relation)
            try:
                if local is None or self._replace(self._replacement, number, local).is_changed:
                    return True
            except TargetRelationError:
                return True  # the change itself fails, at its place
        return False

    def count(self, run: Run, tally: ReplacedTally, lsn: LSN) -> None:
        """Count the values of a run, which was written, that were replaced by NULL.

        Args:
            run: a run of the open frame.
            tally: counts the values.
            lsn: the commit LSN of the run's transaction.
        """
        replaced = self._replaced.get(run.group)
        if replaced is None or not replaced.masks or replaced.original.new is None:
            return
        masks = {name: mask[run.start : run.stop] for name, mask in replaced.masks.items()}
        rows = replaced.original.new.slice(run.start, run.stop - run.start)
        tally.add(self._relations.open(replaced.group.relation), masks, rows, lsn)

    def _replace(self, replacement: Replacement, number: int, local: LocalRelation) -> Replaced:
        found = self._replaced.get(number)
        if found is None:
            found = self._replaced[number] = replacement.replace(local, self._frame.groups[number])
        return found
