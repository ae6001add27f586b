"""Rows as the WAL contains them: the values, their size in memory, and which old tuple is logged
(``ExtractReplicaIdentity``, section B.3).

The size of a tuple is that of PostgreSQL's ``HeapTuple``, because ``logical_decoding_work_mem``
counts it (rule E6): a header, a bitmap if a column is NULL, and the values, each at the alignment
of its type. A value that is stored out of line needs 18 bytes in the row; its content is in the
chunks of the TOAST table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from subscriber.postgres.logical_decoding.historic_catalog import RelationData
from subscriber.postgres.protocol.messages import NULL, UNCHANGED, Absence

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
"""Types of a fixed length: the length and the alignment in bytes (``typlen``, ``typalign``)."""


@dataclass(frozen=True, slots=True)
class Datum:
    """One value: the result of the type's output function and of its send function.

    ``binary`` is None if there is no send function, or none here. Such a value is sent as text in a
    binary stream, too (rule A12). ``external``: the value is stored out of line (TOAST).
    """

    text: bytes = field(repr=False)
    binary: bytes | None = field(default=None, repr=False)
    external: bool = False


ColumnDatum: TypeAlias = Absence | Datum
"""``UNCHANGED``: an out-of-line value that the UPDATE did not write again (rule B14)."""


@dataclass(frozen=True, slots=True)
class HeapTuple:
    """A row version without dropped columns. In a key, other columns are NULL (rules A9, B.3)."""

    values: tuple[ColumnDatum, ...]
    length: int

    @property
    def external_lengths(self) -> tuple[int, ...]:
        """The size in bytes of each value whose chunks the WAL contains before the row."""
        return tuple(_payload(one) for one in self.values if isinstance(one, Datum) and one.external)


def heap_tuple(values: Iterable[ColumnDatum], type_oids: Sequence[int] = ()) -> HeapTuple:
    """Without types every value counts as one of variable length."""
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


Values = Sequence[ColumnDatum]


def key_is_required(relation: RelationData, old: Values, new: Values) -> bool:
    names = relation.identity_columns
    return any(
        column.name in names and (_is_external(before) or _text(before) != _text(after))
        for column, before, after in zip(relation.columns, old, new, strict=True)
    )


def extract_replica_identity(relation: RelationData, old: Values, *, key_required: bool) -> HeapTuple | None:
    """The old tuple that is logged; None if none is.

    =====================  =====================================================  ============
    replica identity       UPDATE                                                 DELETE
    =====================  =====================================================  ============
    nothing, or no key     nothing                                                nothing
    default, index         the key, if it changes or is stored out of line        the key
    full                   the whole row                                          the whole row
    =====================  =====================================================  ============

    ``key_required`` is True for DELETE, and for UPDATE the result of :func:`key_is_required`.
    Values that are stored out of line are put into the old row, because their chunks may be gone
    when it is decoded.
    """
    full = relation.table.identity == "full"
    names = relation.identity_columns
    if not relation.is_logically_logged or not names or not (full or key_required):
        return None
    values = [
        _inline(value) if column.name in names else NULL for column, value in zip(relation.columns, old, strict=True)
    ]
    return heap_tuple(values, types_of(relation))


def new_tuple(relation: RelationData, new: Values, old: Values | None = None) -> HeapTuple:
    """The new tuple of an INSERT, or of an UPDATE of the row ``old``.

    An out-of-line value that the UPDATE does not write again is not in the WAL (rule B14): the new
    row has the same :class:`Datum` object for it.
    """
    values = list(new)
    if old is not None:
        values = [
            UNCHANGED if _is_external(after) and after is before else after
            for before, after in zip(old, new, strict=True)
        ]
    return heap_tuple(values, types_of(relation))


def types_of(relation: RelationData) -> tuple[int, ...]:
    return tuple(column.type_oid for column in relation.columns)


def _is_external(value: ColumnDatum) -> bool:
    return isinstance(value, Datum) and value.external


def _inline(value: ColumnDatum) -> ColumnDatum:
    return replace(value, external=False) if isinstance(value, Datum) else value


def _text(value: ColumnDatum) -> bytes | None:
    return value.text if isinstance(value, Datum) else None
