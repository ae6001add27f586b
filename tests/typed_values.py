"""Values of PostgreSQL's types as text, for comparisons with a server: edge values and random
ones.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from subscriber.postgres.types.datetimes.date_values import (
    DATE_LIMITS,
    DAY,
    TIMESTAMP_LIMITS,
    Interval,
    TimeTZ,
    date_out,
    interval_out,
    time_text,
    timestamp_out,
    timetz_out,
)

Make = Callable[[Random], str]

_SHORT: Final = 10**9
"""An interval in microseconds: about a quarter of an hour."""


def _one_of(*texts: str) -> Make:
    return lambda random: random.choice(texts)


def _mixed(*makes: Make) -> Make:
    return lambda random: random.choice(makes)(random)


def _date(random: Random) -> str:
    day = random.choice([random.randint(-800_000, 800_000), random.randint(-9000, 9000), random.randint(*DATE_LIMITS)])
    return date_out(day)


def _moment(random: Random) -> int:
    return random.choice([
        random.randint(*TIMESTAMP_LIMITS),
        random.randint(-9000, 9000) * DAY + random.randint(0, DAY - 1),
        random.randint(-2_000_000, 2_000_000) * DAY,
        random.randint(-20, 20) * DAY + random.randint(0, 86399) * 1_000_000,
    ])  # fmt: skip


def _time(random: Random) -> int:
    return random.choice(
        [random.randint(0, DAY), random.randint(0, 86400) * 1_000_000, random.randint(0, 24) * 3_600_000_000]
    )


def _timetz(random: Random) -> str:
    zone = random.choice(
        [0, 3600 * random.randint(-15, 15), random.randint(-57599, 57599), 60 * random.randint(-900, 900)]
    )
    return timetz_out(TimeTZ(_time(random), zone))


def _interval(random: Random) -> str:
    def part(*limits: int) -> int:
        limit = random.choice([0, *limits])
        return random.randint(-limit, limit)

    value = Interval(part(1, 14, 1000, 2**31 - 1), part(1, 40, 5000, 2**31 - 1), part(1, _SHORT, 3 * DAY, 2**63 - 1))
    return interval_out(value)


def _float(random: Random) -> str:
    return repr(
        random.choice(
            [
                random.uniform(-10, 10),
                random.randint(-100, 100) / 8,
                random.uniform(-1, 1) * 10 ** random.randint(-12, 20),
            ]
        )
    )


def _integer(*limits: int) -> Make:
    return lambda random: str(random.randint(-(limit := random.choice(limits)), limit))


def _address(random: Random, *, is_network: bool) -> str:
    if random.random() < 0.6:
        width, address = (
            32,
            random.choice(
                [random.getrandbits(32), 0x0A000000 | random.getrandbits(10), 0xC0A80100 | random.getrandbits(9)]
            ),
        )
    else:
        width, address = 128, random.choice([
            random.getrandbits(128), random.getrandbits(128) & random.getrandbits(128) & random.getrandbits(128) & int("f" * 4 + "0" * 8 + "f" * 4 + "0" * 12 + "f" * 4, 16),
            random.getrandbits(32), 0xFFFF << 32 | random.getrandbits(32), random.getrandbits(3), 0x20010DB8 << 96 | random.getrandbits(12),
        ])  # fmt: skip
    bits = random.choice([width, width, 8, 24, random.randint(0, width)])
    if is_network:
        address &= ~((1 << (width - bits)) - 1)
    kind = ipaddress.IPv4Address if width == 32 else ipaddress.IPv6Address
    return f"{kind(address)}" + (f"/{bits}" if bits < width or random.random() < 0.5 else "")


def _json(random: Random, depth: int = 0) -> str:
    space = random.choice(["", "", " ", "\n\t"])
    kind = random.randrange(10 if depth < 3 else 6)
    if kind < 6:
        return space + random.choice([
            "null", "true", "false", "0", "1", "-1", "1.0", "1.50", "-0.0", "1e3", "1E-2", "12345678901234567890.123", "2.5", '""', '"a"', '"b"', '"1"', '"null"',
            '"a b"', '"\\u00e9"', '"é"', '"\\ud83d\\ude00"', '"\\n\\t\\"\\\\\\/"', '"\\u0007\\u007f"', str(random.randint(-9, 9)),
        ]) + space  # fmt: skip
    if kind < 8:
        return f"{space}[{','.join(_json(random, depth + 1) for _ in range(random.randint(0, 4)))}]{space}"
    keys = ("a", "b", "aa", "1", "", "é", "\\u0061", "z z")
    members = (f'{space}"{random.choice(keys)}"{space}:{_json(random, depth + 1)}' for _ in range(random.randint(0, 4)))
    return f"{space}{{{','.join(members)}}}{space}"


def array_of(make: Make, *, dimensions: int | None = None) -> Make:
    """An array as text. Its elements have few values, so that equal ones occur."""

    def text(random: Random) -> str:
        depth = random.choice([1, 1, 1, 1, 2, 3]) if dimensions is None else dimensions
        sizes = [random.randint(1, 3 if depth > 1 else 5) for _ in range(depth)]
        if random.random() < 0.1:
            return "{}"
        bounds = [random.choice([0, 2, -1, 5]) for _ in sizes] if random.random() < 0.2 else []
        prefix = "".join(f"[{low}:{low + size - 1}]" for low, size in zip(bounds, sizes, strict=False))

        def nested(left: list[int]) -> str:
            if not left:
                return (
                    "NULL"
                    if random.random() < 0.1
                    else '"' + make(random).replace("\\", "\\\\").replace('"', '\\"') + '"'
                )
            return "{" + ",".join(nested(left[1:]) for _ in range(left[0])) + "}"

        return (prefix + "=" if prefix else "") + nested(sizes)

    return text


_WORDS: Final = _one_of("a", "b", "1", "", "aa", "NULL", "é", "a b", 'q"', "x\\y", "{c}", "-1", "0", "2", "😀", "A")
_FEW_INTEGERS: Final = _one_of("0", "1", "2", "3", "-1", "2147483647")

VALUES: Final[Mapping[str, Make]] = {
    "bool": _one_of("t", "f"),
    "int2": _mixed(_one_of("0", "1", "-1", "32767", "-32768"), _integer(10, 32767)),
    "int4": _mixed(_one_of("0", "1", "-1", "2147483647", "-2147483648"), _integer(10, 40, 5000, 2**31 - 1)),
    "int8": _mixed(_one_of("0", "1", "-1", str(2**63 - 1), str(-(2**63))), _integer(10, 5000, 2**63 - 1)),
    "float8": _mixed(_one_of("0", "-0", "1", "-1", "0.5", "Infinity", "-Infinity", "NaN", "1e300", "1e-300"), _float, _float),
    "date": _mixed(
        _one_of("infinity", "-infinity", "2000-01-01", "1999-12-31", "2024-02-29", "0001-01-01", "0001-12-31 BC", "4714-11-24 BC",
                "5874897-12-31", "294276-12-31", "294277-01-01", "1970-01-01", "2020-12-31", "2021-01-03", "1900-02-28"),
        _date, _date,
    ),
    "time": _mixed(_one_of("00:00:00", "24:00:00", "23:59:59.999999", "12:00:00.5"), lambda random: time_text(_time(random))),
    "timetz": _mixed(_one_of("00:00:00+00", "24:00:00-15:59:59", "23:59:59.999999+15:59", "12:00:00+02", "11:00:00+01"), _timetz),
    "timestamp": _mixed(
        _one_of("infinity", "-infinity", "2000-01-01 00:00:00", "1999-12-31 23:59:59.999999", "2024-02-29 12:00:00",
                "0001-01-01 00:00:00", "0001-12-31 23:59:59 BC", "4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999",
                "1970-01-01 00:00:00", "2023-03-31 10:00:00", "2024-12-30 00:00:00"),
        lambda random: timestamp_out(_moment(random)), lambda random: timestamp_out(_moment(random)),
    ),
    "timestamptz": _mixed(
        _one_of("infinity", "-infinity", "2000-01-01 00:00:00+00", "4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"),
        lambda random: timestamp_out(random.randint(-(10**15), 10**15)) + "+00",
        lambda random: timestamp_out(random.randint(0, TIMESTAMP_LIMITS[1])) + "+00",
    ),
    "interval": _mixed(
        _one_of("00:00:00", "1 mon", "30 days", "1 day", "24:00:00", "-1 mon +30 days", "1 year", "-00:00:00.000001", "1 mon -1 days +23:00:00"),
        _interval, _interval, _interval,
    ),
    "text": _WORDS,
    "numeric": _one_of("0", "1", "1.0", "-1.50", "NaN", "Infinity", "-Infinity", "12345678901234567890.5", "1e-10"),
    "bytea": _one_of("\\x", "\\x00", "\\x61", "\\x6162", "\\xff"),
    "uuid": lambda random: str(uuid.UUID(int=random.choice([random.getrandbits(128), random.getrandbits(128) & ~(0xFF << 72) | 0x70 << 72, random.getrandbits(4),
                                                            random.getrandbits(128) & ~(0xF << 76) & ~(3 << 62) | random.choice([1, 7, 4]) << 76 | 2 << 62]))),
    "json": _json,
    "jsonb": _json,
    "inet": lambda random: _address(random, is_network=False),
    "cidr": lambda random: _address(random, is_network=True),
    "macaddr": lambda random: random.choice([random.randbytes(6), bytes(5) + random.randbytes(1), b"\xff" * 6]).hex(":"),
    "macaddr8": lambda random: random.choice([random.randbytes(8), random.randbytes(3) + b"\xff\xfe" + random.randbytes(3)]).hex(":"),
}  # fmt: skip
"""For each type, a function that returns the text of a random value."""

NEWER: Final[Mapping[str, Sequence[str]]] = {"interval": ("infinity", "-infinity")}
"""Values that exist from PostgreSQL 17 on."""


def rows(
    random: Random, makes: Sequence[str | Make], count: int, *, nulls: bool = True, major: int = 18
) -> list[tuple[str | None, ...]]:
    """Rows with a value for each type or each function that returns a text. Some values are
    NULL.
    """

    def value(make: str | Make) -> str | None:
        if nulls and random.random() < 0.02:
            return None
        if isinstance(make, str):
            if major >= 17 and make in NEWER and random.random() < 0.05:
                return random.choice(NEWER[make])
            make = VALUES[make]
        return make(random)

    return [tuple(value(make) for make in makes) for _ in range(count)]
