"""Text of many values: two have the same text exactly if PostgreSQL calls them equal.

::

    publisher: COPY's text ────────────────────────┐
                                                   ├──▶ canonical text of a column ──▶ hashes, or rows to compare
    target:    the driver's values ──▶ their text ─┘

========================  ========================================================================
type                      canonical text
========================  ========================================================================
integers, numeric         without a fraction that is zero, and without zeros at its end: 1.00 is 1
real, double precision    the shortest text of the number; there is one zero
character                 without blanks at the end
timestamptz               in UTC, without its zone
times                     without zeros at the end of the fraction
everything else           the text itself
========================  ========================================================================

A column of the target may have another type than the publisher's. Then the value is what the input
function of that type makes of the publisher's text, as in the apply path
(:mod:`subscriber.targets.conversion`), and the text is that of the other type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from subscriber.postgres.schema.transform_rules import ColumnTransform
from subscriber.postgres.schema.transform_values import transformed
from subscriber.postgres.types.arrays import output_texts
from subscriber.postgres.types.float_text import double_text, real_text, rounded_to_real
from subscriber.postgres.types.registry import decode_column, family_of
from subscriber.targets.conversion import TEXT, converted
from subscriber.targets.target_table import TargetColumn

ColumnValues: TypeAlias = pa.Array | Sequence[Any]

Replace = Callable[[pa.Array], pa.Array]
"""Replaces what the target's column cannot hold by NULL, in decoded values."""

_NUMBERS: Final = frozenset({20, 21, 23, 26, 28, 29, 1700})
_FLOAT4, _FLOAT8, _BPCHAR, _TIMESTAMPTZ = 700, 701, 1042, 1184
_TIMES: Final = frozenset({1083, 1114, _TIMESTAMPTZ, 1266})
_WITHOUT_ZONE: Final = r"^([0-9]+-[0-9]+-[0-9]+ )?[0-9:]+(\.[0-9]*)?$"
"""A time, or a date and a time, with neither an offset nor BC."""


@dataclass(frozen=True, slots=True)
class CanonicalColumn:
    """The target reads the publisher's text as the type ``into``, unless the publisher's server
    does (``cast``). ``replace`` stands for values that the target cannot hold. With a
    ``transform``, the publisher sends values of ``sent_as``, which become values of ``type_oid``.
    """

    type_oid: int
    column: TargetColumn
    into: int | None = None
    replace: Replace | None = None
    cast: bool = False
    transform: ColumnTransform | None = None
    sent_as: int = 0

    @property
    def name(self) -> str:
        return self.column.name

    @property
    def compared_as(self) -> int:
        """The type by whose rules values are compared."""
        return self.type_oid if self.into is None or self.into == TEXT else self.into

    @property
    def _is_converted(self) -> bool:
        """Whether the publisher's text is not yet that of the type that is compared."""
        other = self.compared_as
        return other != self.type_oid and not self.cast and not {other, self.type_oid} <= _NUMBERS

    def stored(self, values: pa.Array) -> pa.Array:
        """COPY's texts, as the texts of the values that the target is to have."""
        texts = values.cast(pa.string())
        return texts if self.transform is None else transformed(self.transform, self.sent_as, texts, as_text=True)

    def publisher_text(self, values: pa.Array) -> pa.Array:
        """The canonical text of texts of :meth:`stored`."""
        if self.replace is not None or self._is_converted:
            decoded = decode_column(self.type_oid, values.cast(pa.binary()), binary=False, column=0)
            if self.replace is not None:
                decoded = self.replace(decoded)
            if self._is_converted:
                decoded = converted(self.compared_as, self.column, decoded)
            texts = iter(output_texts(decoded.drop_null()))
            values = pa.array([next(texts) if valid else None for valid in decoded.is_valid().to_pylist()], pa.string())
        return canonical(self.compared_as, values)


def texts_of(type_oid: int, values: ColumnValues) -> pa.Array:
    """PostgreSQL's text of a driver's values: :func:`text_of`, a column at a time if Arrow can."""
    family = family_of(type_oid).arrow_type
    column = values if isinstance(values, pa.Array) else _array_of(values)
    if column is not None:
        kind = column.type
        if pa.types.is_boolean(kind) and pa.types.is_boolean(family):
            return pc.if_else(column, "t", "f")
        if pa.types.is_null(kind) or pa.types.is_date(kind):
            return column.cast(pa.string())
        if pa.types.is_string(kind) and not pa.types.is_boolean(family):
            return column
        if pa.types.is_integer(kind) and not (pa.types.is_boolean(family) or pa.types.is_floating(family)):
            return column.cast(pa.string())
        if pa.types.is_floating(kind) and pa.types.is_floating(family):
            return column.cast(pa.float64()).cast(pa.string())
    if isinstance(values, pa.Array):
        values = values.to_pylist()
    return pa.array([text_of(type_oid, value) for value in values], pa.string())


def _array_of(values: Sequence[Any]) -> pa.Array | None:
    """The values as an array; None if they are not of one type of Arrow."""
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def canonical(type_oid: int, texts: pa.Array) -> pa.Array:
    """The canonical text of PostgreSQL's texts. What is not a value of the type stays as it is.

    >>> canonical(1700, pa.array(["1.00", "10", "0.10"])).to_pylist()
    ['1', '10', '0.1']
    """
    if type_oid in _NUMBERS:
        return _without_zeros(texts)
    if type_oid in (_FLOAT4, _FLOAT8):
        return _numbers(texts, single=type_oid == _FLOAT4)
    if type_oid == _BPCHAR:
        return pc.ascii_rtrim(texts, " ")
    if type_oid == _TIMESTAMPTZ:
        texts = _without_offset(texts)
    return _seconds(texts) if type_oid in _TIMES else texts


def _without_offset(texts: pa.Array) -> pa.Array:
    """Times in UTC without the offset."""
    if pc.all(pc.ends_with(texts, "+00")).as_py():
        return pc.utf8_slice_codeunits(texts, 0, -3)
    return pc.replace_substring_regex(texts, r"\+00(:00)?( BC)?$", r"\2")


def _seconds(texts: pa.Array) -> pa.Array:
    """Times whose seconds have no zeros at the end of the fraction."""
    if not pc.any(pc.match_substring(texts, ".")).as_py():
        return texts
    if pc.all(pc.match_substring_regex(texts, _WITHOUT_ZONE)).as_py():
        short = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
        return pc.if_else(pc.match_substring(texts, "."), short, texts)
    texts = pc.replace_substring_regex(texts, r"(\.\d*?)0+([^0-9.].*)?$", r"\1\2")
    return pc.replace_substring_regex(texts, r"\.([^0-9].*)?$", r"\1")


def _without_zeros(texts: pa.Array) -> pa.Array:
    fraction = pc.match_substring(texts, ".")
    if not pc.any(fraction).as_py():
        return texts
    short = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
    short = pc.if_else(pc.equal(short, "-0"), "0", short)
    return pc.if_else(pc.and_(fraction, pc.invert(pc.match_substring_regex(texts, "[^0-9.-]"))), short, texts)


def _numbers(texts: pa.Array, *, single: bool) -> pa.Array:
    try:
        return _shortest(texts, single=single)
    except pa.ArrowInvalid:
        return pa.array([_number(text, single=single) for text in texts.to_pylist()], pa.string())


def _number(text: str | None, *, single: bool) -> str | None:
    try:
        found: str | None = _shortest(pa.array([text], pa.string()), single=single)[0].as_py()
    except pa.ArrowInvalid:  # it is not a number: a difference to report
        return text
    return found


def _shortest(texts: pa.Array, *, single: bool) -> pa.Array:
    # The sum has no negative zero.
    numbers = pc.add(texts.cast(pa.float64()), 0.0)
    return numbers.cast(pa.float32() if single else pa.float64(), safe=False).cast(pa.string())


def text_of(type_oid: int, value: Any) -> str | None:
    r"""PostgreSQL's text for a value that a driver returned, or for PostgreSQL's text itself. Both
    zeros of a floating-point type have the text of the positive one (SQLite has only one zero).

    >>> text_of(16, 1), text_of(701, 0.1), text_of(17, b"\x00"), text_of(1184, "2026-01-01 00:00:00+00:00")
    ('t', '0.1', '\\x00', '2026-01-01 00:00:00+00')
    """
    if value is None:
        return None
    arrow_type = family_of(type_oid).arrow_type
    if pa.types.is_boolean(arrow_type):
        return {"1": "t", "0": "f", "True": "t", "False": "f"}.get(str(value), str(value))
    if pa.types.is_floating(arrow_type):
        return _float_text(type_oid, value)
    if isinstance(value, float) and pa.types.is_integer(arrow_type) and value.is_integer():
        return str(int(value))
    if isinstance(value, bytes | bytearray | memoryview):
        return "\\x" + bytes(value).hex()
    # str(Decimal) may use an exponent where PostgreSQL does not.
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    if type_oid == _TIMESTAMPTZ and "+00:00" in text:
        return text.replace("+00:00", "+00")
    return text


def _float_text(type_oid: int, value: Any) -> str:
    try:
        number = float(value) + 0.0
    except ValueError:  # the text is not a number: a difference to report
        return str(value)
    return real_text(rounded_to_real(number)) if type_oid == _FLOAT4 else double_text(number)
