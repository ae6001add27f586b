"""PostgreSQL's text of a value that a target's driver returns.

This module has its own rules of conversion on purpose: the code that wrote the values must not also
check them.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from subscriber.types import family_of
from subscriber.types.float_text import double_text, real_text, rounded_to_real

_FLOAT4: Final = 700
_TIMESTAMPTZ: Final = 1184


def text_of(type_oid: int, value: Any) -> str | None:
    r"""PostgreSQL's text for a value that a driver returned, or for PostgreSQL's text itself.

    Numbers that PostgreSQL calls equal have the same text. This concerns the zeros of a
    floating-point type (SQLite has only one zero).

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
