"""Rows as the WAL contains them: the values, and their size in memory.

The size of a tuple is that of PostgreSQL's ``HeapTuple``, because ``logical_decoding_work_mem``
counts it (rule E6). A table's row consists of a header, a bitmap if a column is NULL, and the
values, each at the alignment of its type. A value that is stored out of line needs 18 bytes in the
row; its content is in the chunks of the TOAST table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from subscriber.protocol.messages import NULL, UNCHANGED, Absence

_HEADER: Final = 23
"""SizeofHeapTupleHeader"""
_EXTERNAL_POINTER: Final = 18
_SHORT: Final = 126
_VARLENA: Final = (-1, 4)

_FIXED: Final[dict[int, tuple[int, int]]] = {
    **dict.fromkeys((16, 18), (1, 1)),
    21: (2, 2),
    **dict.fromkeys((23, 24, 26, 28, 29, 700, 1082, 2202, 2203, 2204, 2205, 2206), (4, 4)),
    **dict.fromkeys((3734, 3769, 4089, 4096, 4191), (4, 4)),
    **dict.fromkeys((20, 701, 790, 1083, 1114, 1184, 3220, 5069), (8, 8)),
    19: (64, 1),
    27: (6, 2),
    600: (16, 8),
    601: (32, 8),
    603: (32, 8),
    628: (24, 8),
    718: (24, 8),
    774: (8, 4),
    829: (6, 4),
    1186: (16, 8),
    1266: (12, 8),
    2950: (16, 1),
}
"""For each type of a fixed length: the length and the alignment in bytes (``typlen``,
``typalign``). All others are stored with their length.
"""


@dataclass(frozen=True, slots=True)
class Datum:
    """One value.

    Attributes:
        text: what the type's output function writes.
        binary: what the type's send function writes; None if the type has none, or if it is not
            known here. Such a value is sent as text in a binary stream, too (rule A12).
        external: whether the value is stored out of line (TOAST).
    """

    text: bytes = field(repr=False)
    binary: bytes | None = field(default=None, repr=False)
    external: bool = False


ColumnDatum: TypeAlias = Absence | Datum
"""One column of a tuple: ``NULL``, ``UNCHANGED`` (an out-of-line value that the UPDATE did not
write again, rule B14), or a value.
"""


@dataclass(frozen=True, slots=True)
class HeapTuple:
    """A row version, as logical decoding shows it to a plugin.

    Attributes:
        values: one for each column of the relation that is not dropped, in its order. In the tuple
            of a key, every column outside of the replica identity is ``NULL`` (rules A9, B.3).
        length: the size in bytes (``t_len``).
    """

    values: tuple[ColumnDatum, ...]
    length: int

    @property
    def external_lengths(self) -> tuple[int, ...]:
        """The size in bytes of each value whose chunks the WAL contains before the row."""
        return tuple(_payload(one) for one in self.values if isinstance(one, Datum) and one.external)


def heap_tuple(values: Iterable[ColumnDatum], type_oids: Sequence[int] = ()) -> HeapTuple:
    """A row version with the size that PostgreSQL would compute.

    Args:
        values: the values.
        type_oids: the types of the columns; without them every value counts as one of variable
            length.
    """
    values = tuple(values)
    length = _HEADER + ((len(values) + 7) // 8 if NULL in values else 0)
    length = _aligned(length, 8)
    for number, value in enumerate(values):
        if value is NULL:
            continue
        if value is UNCHANGED or (isinstance(value, Datum) and value.external):
            length += _EXTERNAL_POINTER
            continue
        assert isinstance(value, Datum)
        size, alignment = _FIXED.get(type_oids[number] if type_oids else 0, _VARLENA)
        if size >= 0:
            length = _aligned(length, alignment) + size
            continue
        payload = _payload(value)
        length = length + 1 + payload if payload <= _SHORT else _aligned(length, alignment) + 4 + payload
    return HeapTuple(values, length)


def _payload(value: Datum) -> int:
    return len(value.text if value.binary is None else value.binary)


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
