"""The controls of a frame: the messages that are not changes of one row, as columns.

::

    positions   0    5    6    9   …        int32
    messages    B…   C…   B…   C…  …        raw pgoutput, one buffer with offsets
    relations   {number of a TRUNCATE: the relations that it names}
    finishes    {number of a BEGIN PREPARE: the end of its entry}

A frame of small transactions has tens of thousands of controls, two for each transaction. An
object for each of them took more time than everything else that is done with the transaction, most
of it in Python's garbage collector. So they stay columns until somebody asks for one
(:class:`Control`), and thousands of transactions are checked as arrays
(:mod:`subscriber.apply.whole_transactions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.messages import Relation


class Control(NamedTuple):
    """A message that is not a change of one row, with its position among the changes.

    Attributes:
        position: the message's ordinal in the frame.
        message: raw pgoutput, in the form outside of stream blocks: B, C, O, T, M, b, P, K or r.
        relations: for T, the relations that it names, in its order; otherwise empty.
        finish_lsn: for b, the end LSN of its entry: the end of the COMMIT PREPARED if that
            follows directly, otherwise the end of the PREPARE. 0/0 for other messages, which
            contain their LSN.
    """

    position: int
    message: bytes
    relations: tuple[Relation, ...] = ()
    finish_lsn: LSN = INVALID_LSN


@dataclass(frozen=True, slots=True, eq=False)
class Controls(Sequence[Control]):
    """The controls of a frame, or some of them; see the module's docstring.

    Attributes:
        positions: the ordinal of each control in the frame.
        messages: the messages, none of which is empty or NULL.
        relations: the relations that a control names, by its number; most controls name none.
        finishes: the finish LSN of a control, by its number; most controls have none.
    """

    positions: NDArray[np.int32]
    messages: pa.BinaryArray
    relations: Mapping[int, tuple[Relation, ...]] = field(default_factory=dict)
    finishes: Mapping[int, LSN] = field(default_factory=dict)

    @classmethod
    def of(cls, controls: Iterable[Control]) -> Self:
        """The same controls as columns."""
        listed = list(controls)
        return cls(
            np.array([one.position for one in listed], np.int32),
            pa.array([one.message for one in listed], pa.binary()),
            {number: one.relations for number, one in enumerate(listed) if one.relations},
            {number: one.finish_lsn for number, one in enumerate(listed) if one.finish_lsn != INVALID_LSN},
        )

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, number: int) -> Control: ...

    @overload
    def __getitem__(self, number: slice) -> Controls: ...

    def __getitem__(self, number: int | slice) -> Control | Controls:
        """The control with this number; for a slice with the step 1, these controls."""
        if isinstance(number, slice):
            start, stop, _ = number.indices(len(self))
            return self.take(np.arange(start, stop))
        at = range(len(self))[number]
        return Control(
            int(self.positions[at]),
            self.messages[at].as_py(),
            self.relations.get(at, ()),
            self.finishes.get(at, INVALID_LSN),
        )

    def __iter__(self) -> Iterator[Control]:
        for number, (position, message) in enumerate(
            zip(self.positions.tolist(), self.messages.to_pylist(), strict=True)
        ):
            yield Control(position, message, self.relations.get(number, ()), self.finishes.get(number, INVALID_LSN))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Controls) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it has arrays

    def take(self, numbers: NDArray[np.int64]) -> Controls:
        """The controls with these numbers, which are different, in this order."""
        size = len(numbers)
        if not self.relations and not self.finishes:
            relations, finishes = self.relations, self.finishes
        else:
            at = {number: place for place, number in enumerate(numbers.tolist())}
            relations = {at[number]: named for number, named in self.relations.items() if number in at}
            finishes = {at[number]: lsn for number, lsn in self.finishes.items() if number in at}
        first = int(numbers[0]) if size else 0
        if size and int(numbers[-1]) - first == size - 1 and np.all(np.diff(numbers) == 1):
            return Controls(self.positions[first : first + size], self.messages.slice(first, size), relations, finishes)
        return Controls(self.positions[numbers], self.messages.take(pa.array(numbers)), relations, finishes)

    def types(self) -> NDArray[np.uint8]:
        """The type byte of each message."""
        data, offsets = self.buffers()
        types: NDArray[np.uint8] = data[offsets[:-1]]
        return types

    def buffers(self) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        """The bytes of the messages, and where each message begins in them, and the end of the last
        one.
        """
        if not len(self):
            return np.empty(0, np.uint8), np.zeros(1, np.int32)
        _, offsets, data = self.messages.buffers()
        begins = np.frombuffer(offsets, np.int32, len(self) + 1, self.messages.offset * 4)
        return np.frombuffer(data, np.uint8), begins


NO_CONTROLS: Final = Controls.of(())
"""The controls of a frame that has none."""
