"""What an UPDATE or DELETE writes to the WAL of the old row (section B.3; ``heap_update`` and
``ExtractReplicaIdentity`` of ``heapam.c``).

=====================  =====================================================  ============
replica identity       UPDATE                                                 DELETE
=====================  =====================================================  ============
nothing, or no key     nothing                                                nothing
default, index         the key, if it changes or is stored out of line        the key
full                   the whole row                                          the whole row
=====================  =====================================================  ============

Values that are stored out of line are put into the old row, because their chunks may be gone when
it is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from subscriber.output_plugin.heap_tuples import ColumnDatum, Datum, HeapTuple, heap_tuple
from subscriber.output_plugin.historic_catalog import Relation
from subscriber.protocol.messages import NULL, UNCHANGED

Values = Sequence[ColumnDatum]
"""A value for each column of a relation, in its order."""


def key_is_required(relation: Relation, old: Values, new: Values) -> bool:
    """Whether an UPDATE has to log the old key.

    Args:
        relation: the table.
        old: the old row.
        new: the new row.
    """
    names = relation.identity_columns
    return any(
        column.name in names and (_is_external(before) or _text(before) != _text(after))
        for column, before, after in zip(relation.columns, old, new, strict=True)
    )


def extract_replica_identity(relation: Relation, old: Values, *, key_required: bool) -> HeapTuple | None:
    """The old tuple that is logged; None if none is.

    Args:
        relation: the table.
        old: the old row.
        key_required: True for DELETE; for UPDATE the result of :func:`key_is_required`.
    """
    full = relation.table.identity == "full"
    names = relation.identity_columns
    if not relation.is_logically_logged or not names or not (full or key_required):
        return None
    values = [
        _inline(value) if column.name in names else NULL for column, value in zip(relation.columns, old, strict=True)
    ]
    return heap_tuple(values, types_of(relation))


def new_tuple(relation: Relation, new: Values, old: Values | None = None) -> HeapTuple:
    """The new tuple of an INSERT, or of an UPDATE of the row ``old``.

    A value that is stored out of line and that the UPDATE does not write again is not in the WAL
    (rule B14): the new row is given the same :class:`Datum` object for it.
    """
    values = list(new)
    if old is not None:
        values = [
            UNCHANGED if _is_external(after) and after is before else after
            for before, after in zip(old, new, strict=True)
        ]
    return heap_tuple(values, types_of(relation))


def types_of(relation: Relation) -> tuple[int, ...]:
    """The types of a relation's columns."""
    return tuple(column.type_oid for column in relation.columns)


def _is_external(value: ColumnDatum) -> bool:
    return isinstance(value, Datum) and value.external


def _inline(value: ColumnDatum) -> ColumnDatum:
    return replace(value, external=False) if isinstance(value, Datum) else value


def _text(value: ColumnDatum) -> bytes | None:
    return value.text if isinstance(value, Datum) else None
