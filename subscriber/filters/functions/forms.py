"""The form in which a type's values are computed with: PostgreSQL's own internal one, where Python or Arrow has the like.

::

    wire text ──from_text──▶ value (Python) ◀──▶ Arrow array, where the form has an Arrow type

Forms (a module of this package registers those of its types):

    bool                         bool                     pa.bool_()
    int2 int4 int8 oid           int                      pa.int16() pa.int32() pa.int64() pa.int64()
    float4 float8                float                    pa.float32() pa.float64()
    text varchar bpchar name "char"  str, blanks kept     pa.string()
    bytea                        bytes                    pa.binary()
    uuid                         bytes, 16                pa.binary()
    date                         int: days since 2000-01-01; -2**31 and 2**31 - 1 are -infinity and infinity         pa.int32()
    timestamp timestamptz        int: microseconds since 2000-01-01 (UTC); -2**63 and 2**63 - 1 are the infinities  pa.int64()
    time                         int: microseconds        pa.int64()
    timetz                       dates.TimeTZ(microseconds, zone: seconds west of Greenwich)
    interval                     intervals.Interval(months, days, microseconds); all at their least or greatest are the infinities
    numeric                      decimal.Decimal: its exponent is the display scale; NaN, Infinity
    json                         str, as it was written
    jsonb                        json.Jsonb, see there
    inet cidr                    network.Inet, see there
    bit varbit                   str of 0 and 1
    pg_lsn                       int                      pa.uint64()
    ranges                       ranges.Range, see there
    arrays                       arrays.Array(dimensions, lower bounds, elements in their form; None is NULL)

NULL is None, and Arrow's null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

FromText = Callable[[str, int], Any]
"""A type's input function: text and type modifier (-1 for none) → value; raises :class:`~subscriber.errors.SubscriberError` as PostgreSQL would."""
ToText = Callable[[Any], str]
"""A type's output function, as a replication session would print it (ISO dates, UTC, bytea in hex)."""
FromTexts = Callable[[pa.StringArray], Any]
"""The input function over a column of what a replication session prints → an Arrow array, or a list where the form has no Arrow type."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of some types.

    Attributes:
        oids: of the types.
        from_text: their input function.
        to_text: their output function.
        arrow: the Arrow type of a column of them; None where only Python holds the values.
        from_texts: a column of output texts at once; without it, text is what it is where ``arrow`` is a string, and
            ``from_text`` reads each distinct one otherwise.
    """

    oids: tuple[int, ...]
    from_text: FromText
    to_text: ToText
    arrow: pa.DataType | None = None
    from_texts: FromTexts | None = None


_FORMS: dict[int, Form] = {}


def register(form: Form) -> Form:
    """Make a form known; gives it back."""
    for oid in form.oids:
        if oid in _FORMS:
            raise AssertionError(f"type {oid} has two forms")
        _FORMS[oid] = form
    return form


def form_of(type_oid: int) -> Form | None:
    """The form of a type; None for a type that is not computed with."""
    return _FORMS.get(type_oid)
