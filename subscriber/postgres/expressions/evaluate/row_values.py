"""The rows of a frame for the evaluation of an expression. Values may cover only some of the rows.

::

    wire column (Arrow)  ──column──▶  value: a column of its form         pa.Array, where the form has an Arrow type
                                                                          list, where only Python holds the values
                                      or one for all rows                 ScalarValue

Rows convert a column to the form of its type at its first use, and only once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from subscriber.base.errors import NotSupportedError, RowFilterError, SubscriberError
from subscriber.postgres.types.arrays import EMPTY, MOST_DIMENSIONS, Array
from subscriber.postgres.types.family import Form
from subscriber.postgres.types.oids import type_name
from subscriber.postgres.types.registry import form_of


@dataclass(frozen=True, slots=True)
class ScalarValue:
    """One Python value for all rows; None is NULL."""

    value: Any


Value: TypeAlias = pa.Array | list[Any] | ScalarValue
"""The values of an expression for some rows."""

NULL: Final = ScalarValue(None)


class FrameRows:
    def __init__(self, columns: Mapping[str, pa.Array], count: int) -> None:
        self.count = count
        self._columns = columns
        self._values: dict[object, Value] = {}
        self._all: FrameRows | None = None
        self._kept: pa.BooleanArray | None = None

    def where(self, kept: pa.BooleanArray) -> FrameRows:
        """The rows for which ``kept`` is true. It must not contain nulls."""
        part = FrameRows(self._columns, kept.true_count)
        part._all, part._kept = self, kept
        return part

    def column(self, name: str, type_oid: int) -> Value:
        return self.kept((name, type_oid), lambda: read_column(self._columns[name], type_oid))

    def keep(self, slot: object, value: Value) -> None:
        """Store a value for these rows and all subsets of them."""
        self._values[slot] = value

    def kept(self, slot: object, make: Callable[[], Value] = lambda: NULL) -> Value:
        """What was kept for these rows or a superset; if nothing, ``make`` computes it for all."""
        if slot not in self._values:
            if self._all is None or self._kept is None:
                self._values[slot] = make()
            else:
                self._values[slot] = filtered(self._all.kept(slot, make), self._kept)
        return self._values[slot]


def read_column(array: pa.Array, type_oid: int) -> Value:
    """A frame's column in the form of its type; where that has no Arrow type, it is text."""
    form = required_form(type_oid)
    is_text = pa.types.is_string(array.type)
    if is_text and form.from_texts is not None:
        return form.from_texts(array)
    if array.type == form.arrow:
        return array
    if not is_text:
        raise NotSupportedError(f"a row filter cannot read values of type {type_name(type_oid)} from {array.type}")
    # Convert each distinct text once.
    encoded = array.dictionary_encode()
    try:
        read = [form.from_text(text, -1) for text in encoded.dictionary.to_pylist()]
    except SubscriberError as error:
        # The message of the input function quotes the value.
        raise RowFilterError(f"invalid input syntax for type {type_name(type_oid)}", sqlstate=error.sqlstate) from None
    if form.arrow is not None:
        return pa.array(read, form.arrow).take(encoded.indices)
    read.append(None)
    return [read[index] for index in encoded.indices.fill_null(len(read) - 1).to_pylist()]


def required_form(type_oid: int) -> Form:
    form = form_of(type_oid)
    if form is None:
        raise NotSupportedError(
            f"a row filter with a value of type {type_name(type_oid)} cannot be evaluated by the subscriber"
        )
    return form


def arrow_of(type_oid: int) -> pa.DataType | None:
    """The Arrow type for values of a type; None if only Python holds them."""
    form = form_of(type_oid)
    return None if form is None else form.arrow


def filtered(value: Value, kept: pa.BooleanArray) -> Value:
    if isinstance(value, ScalarValue):
        return value
    if isinstance(value, list):
        return [value[row] for row in np.flatnonzero(kept.to_numpy(zero_copy_only=False)).tolist()]
    return value.filter(kept)


def listed(value: Value, count: int) -> list[Any]:
    if isinstance(value, ScalarValue):
        return [value.value] * count
    return value if isinstance(value, list) else value.to_pylist()


def array_from(value: Value, count: int, arrow_type: pa.DataType) -> pa.Array:
    if isinstance(value, ScalarValue):
        return pa.repeat(pa.scalar(value.value, arrow_type), count)
    return pa.array(value, arrow_type) if isinstance(value, list) else value


def nulls(value: Value, count: int) -> pa.BooleanArray:
    """Whether the value is NULL, for each row."""
    if isinstance(value, ScalarValue):
        return pa.repeat(value.value is None, count)
    if isinstance(value, list):
        return pa.array([one is None for one in value], pa.bool_())
    return value.is_null()


class Pieces:
    """Combines the values of several subsets of rows into one value (CASE, COALESCE)."""

    def __init__(self, rows: FrameRows, arrow_type: pa.DataType | None) -> None:
        self.rest = rows
        self._count = rows.count
        self._arrow_type = arrow_type
        self._places: npt.NDArray[np.int64] = np.arange(rows.count)
        self._pieces: list[tuple[npt.NDArray[np.int64], Value]] = []

    def give(self, chosen: pa.BooleanArray, value: Value) -> None:
        """Set the value of some rows of :attr:`rest`, and remove them from it."""
        mask = chosen.to_numpy(zero_copy_only=False)
        self._pieces.append((self._places[mask], value))
        self._places = self._places[~mask]
        self.rest = self.rest.where(pc.invert(chosen))

    def give_rest(self, evaluate: Callable[[FrameRows], Value]) -> None:
        if self.rest.count:
            self.give(pa.repeat(True, self.rest.count), evaluate(self.rest))

    def whole(self) -> Value:
        """The value of all rows. It is NULL for a row whose value was not set."""
        if len(self._pieces) == 1 and len(self._pieces[0][0]) == self._count:
            return self._pieces[0][1]
        pieces = [(places, value) for places, value in self._pieces if len(places)]
        if self._arrow_type is None:
            result: list[Any] = [None] * self._count
            for places, value in pieces:
                for place, one in zip(places.tolist(), listed(value, len(places)), strict=True):
                    result[place] = one
            return result
        if not pieces:
            return pa.nulls(self._count, self._arrow_type)
        order = np.full(self._count, -1)
        order[np.concatenate([places for places, _ in pieces])] = np.arange(sum(len(places) for places, _ in pieces))
        together = pa.concat_arrays([array_from(value, len(places), self._arrow_type) for places, value in pieces])
        return together.take(pa.array(order, mask=order < 0))


def array_of_elements(elements: Sequence[Any]) -> Array:
    """A one-dimensional array from 1 on; without elements the empty one, of no dimension."""
    return Array((len(elements),), (1,), tuple(elements)) if elements else EMPTY


def array_of_arrays(arrays: Sequence[Array | None]) -> Array:
    """An array with one dimension more than the given arrays."""
    filled = [one for one in arrays if one is not None and one.dimensions]
    if not filled:
        return EMPTY
    first = filled[0]
    if len(filled) < len(arrays) or any(
        (one.dimensions, one.lower_bounds) != (first.dimensions, first.lower_bounds) for one in filled
    ):
        raise RowFilterError(
            "multidimensional arrays must have array expressions with matching dimensions", sqlstate="2202E"
        )
    if len(first.dimensions) == MOST_DIMENSIONS:
        raise RowFilterError(
            f"number of array dimensions ({MOST_DIMENSIONS + 1}) exceeds the maximum allowed ({MOST_DIMENSIONS})",
            sqlstate="54000",
        )
    return Array(
        (len(filled), *first.dimensions),
        (1, *first.lower_bounds),
        tuple(element for one in filled for element in one.elements),
    )
