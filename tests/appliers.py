"""The rules of a batch; an applier without a target, for tests of the steps between attempts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from subscriber.apply.applier import ANY_FORMAT, ApplyResult, Rules
from subscriber.apply.conflicts.conflict import Conflict, with_failure
from subscriber.base.errors import ColumnsToAdd, ConflictError, SubscriberError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from tests.frames import frame


def obeying(**options: Any) -> Rules:
    """The rules of a batch whose subscription has these options."""
    return Rules(options=replace(ANY_FORMAT, **options))


@dataclass(frozen=True)
class Attempt:
    """A call of :meth:`ModelApplier.apply`."""

    start: int
    end: int
    before: int | None = None


class ModelApplier:
    """Applies transactions of which it knows only where they finish. It follows the interface
    :class:`~subscriber.apply.applier.Applier`.

    Args:
        finishes: where the transactions of the batch finish.
        progress: the applied LSN.
        failing: the errors of transactions that cannot be applied, by their finish LSN.
        refused: the transactions that the target refuses at its commit.
        examined: what :meth:`examine` finds.

    Attributes:
        attempts: the calls of :meth:`apply`.
        committed: the transactions that are in the target.
        asked: how often the publisher was asked.
        added: how often columns were added.
    """

    target: Any = None
    origin = "pg_1"
    version = 18
    interruption: Any = None
    two_phase = False

    def __init__(
        self,
        finishes: Iterable[int],
        *,
        progress: int = 100,
        failing: Mapping[int, SubscriberError] | None = None,
        refused: Collection[int] = (),
        examined: Conflict | None = None,
    ) -> None:
        self._finishes = list(finishes)
        self._failing = dict(failing or {})
        self._refused = refused
        self._examined = examined
        self._progress = progress
        self.attempts: list[Attempt] = []
        self.committed: list[int] = []
        self.asked = 0
        self.added = 0

    def apply(self, frames: Iterable[Frame], *, start: LSN, end: LSN, before: LSN | None = None) -> ApplyResult:
        list(frames)
        self.attempts.append(Attempt(start, end, before))
        applied, batch = self._progress, []
        for finish in self._finishes:
            if self._progress < finish <= end:
                if finish in self._failing:
                    raise with_failure(self._failing[finish], applied_before=applied)
                applied = finish
                batch.append(finish)
        if any(finish in self._refused for finish in batch):
            raise with_failure(ConflictError("refused at commit", sqlstate="23503"), at_commit=True)
        self.committed += batch
        self._progress = end
        return ApplyResult(end, transactions=len(batch))

    def examine(self, frames: Iterable[Frame], conflict: Conflict, *, start: LSN, end: LSN) -> Conflict | None:
        list(frames)
        return self._examined

    def knows_defaults_of(self, needed: ColumnsToAdd) -> bool:
        return bool(self.asked)

    def ask_publisher(self, needed: ColumnsToAdd) -> None:
        self.asked += 1

    def add_columns(self, needed: ColumnsToAdd) -> None:
        self.added += 1
        self._failing = {
            finish: error for finish, error in self._failing.items() if not isinstance(error, ColumnsToAdd)
        }

    def read_progress(self) -> LSN:
        return LSN(self._progress)


def reading(messages: Sequence[m.Message]) -> Callable[[], list[Frame]]:
    """Reads the frames of a batch without changes of rows, as often as it is called."""
    return lambda: [frame([], messages)]
