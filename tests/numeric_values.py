"""Numbers as text, for comparisons with a server; :mod:`tests.typed_values` has those of other
types.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Final

import numpy as np

from tests.typed_values import VALUES, Make

_NUMERIC_EDGES: Final = (
    "0", "0.0", "0.000", "1", "-1", "1.0", "1.50", "1.5", "10", "100.00", "-2.5", "2.5", "3.5", "0.5", "-0.5", "9999", "10000",
    "9999.9999", "10000.0001", "0.0001", "0.00001", "-0.00000000000000012300", "99999999.9999", "100000000", "1e40", "-1e-40",
    "12345678901234567890.12345678901234567890", "NaN", "Infinity", "-Infinity", "32767.5", "2147483647.5", "-2147483648.5",
    "9223372036854775807.4", "3", "7", "0.3", "1e100", "1e-100", "1e400", "1e-400", "3.4028235677973366e38", "1e-46",
)  # fmt: skip
_DOUBLE_EDGES: Final = (
    "0", "-0", "1", "-1", "0.5", "-0.5", "1.5", "2.5", "-2.5", "NaN", "Infinity", "-Infinity", "100", "1e-5", "709.78", "-745.2",
    "1.7976931348623157e308", "-1.7976931348623157e308", "5e-324", "2.2250738585072014e-308", "9007199254740993", "1e15", "1e14",
    "9223372036854775807", "-9223372036854775808", "2147483647.5", "-2147483648.5", "32767.5", "3.5e38", "1e-46", "0.1", "1e22",
)  # fmt: skip
_REAL_EDGES: Final = (
    "0", "-0", "1", "-1", "0.5", "1.5", "2.5", "-2.5", "NaN", "Infinity", "-Infinity", "3.4028235e38", "-3.4028235e38", "1e-45",
    "1.17549435e-38", "16777217", "2147483648", "-2147483648", "32767.5", "9.223372e18", "100000", "1000000", "0.1",
)  # fmt: skip


def _numeric(random: Random) -> str:
    if random.random() < 0.4:
        return random.choice(_NUMERIC_EDGES)
    digits = random.choice([1, 2, 3, 4, 5, 8, 16, 25])
    number = random.randint(-(10**digits), 10**digits)
    return f"{Decimal(number).scaleb(-random.choice([0, 0, 1, 2, 3, 4, 5, 9, 20])):f}"


def _double(random: Random) -> str:
    kind = random.random()
    if kind < 0.4:
        return random.choice(_DOUBLE_EDGES)
    if kind < 0.8:
        return repr(random.uniform(-12, 12))
    (value,) = struct.unpack("d", random.randbytes(8))
    return repr(value) if math.isfinite(value) else "NaN"


def _real(random: Random) -> str:
    kind = random.random()
    if kind < 0.4:
        return random.choice(_REAL_EDGES)
    if kind < 0.8:
        return str(np.float32(random.uniform(-12, 12)))
    (value,) = struct.unpack("f", random.randbytes(4))
    return str(np.float32(value)) if math.isfinite(value) else "NaN"


NUMBERS: Final[Mapping[str, Make]] = {
    "bool": VALUES["bool"],
    "int2": VALUES["int2"],
    "int4": VALUES["int4"],
    "int8": VALUES["int8"],
    "oid": lambda random: str(random.choice([0, 1, 16384, 2**31, 2**32 - 1, random.randrange(2**32)])),
    "float4": _real,
    "float8": _double,
    "numeric": _numeric,
}
"""Type → the text of a value, for the type's input function."""
