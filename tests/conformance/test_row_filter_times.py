"""Functions of dates, times, timestamps and intervals, beside the server's own (rules B11, B25),
and their input functions.

The values differ from run to run; a failure shows the seed, and ``SEED`` repeats it.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from subscriber.postgres.expressions.functions import FUNCTIONS
from tests.random_seed import random_seed
from tests.server_functions import REFUSED, Server, differences, open_session, read, show, zones_of
from tests.typed_values import Make, rows

pytestmark = pytest.mark.server

SEED: Final = random_seed()
ROWS: Final = 100
TYPES: Final = frozenset({"date", "time", "timetz", "timestamp", "timestamptz", "interval"})
UNITS: Final = [
    "year",
    "month",
    "day",
    "hour",
    "minute",
    "second",
    "milliseconds",
    "microseconds",
    "epoch",
    "julian",
    "dow",
    "isodow",
    "doy",
    "isoyear",
    "week",
    "quarter",
    "decade",
    "century",
    "millennium",
    "timezone",
    "timezone_hour",
    "timezone_minute",
    "Y",
    "m",
    "jd",
    "nonsense",
    "infinity",
    "now",
    "qtr",
    "mon",
    "SECOND",
    "microsecondsXX",
]
ZONES: Final = (
    "UTC", "gmt", "Zulu", "+02", "-8:30", "5:45:10", "Europe/Berlin", "america/new_york", "Australia/Lord_Howe", "Asia/Kolkata", "EST", "msk",
    "EST5EDT,M3.2.0,M11.1.0", "x5y,J60/2,J300", "<+03>-3", "Nowhere/Town", "",
)  # fmt: skip
"""Zones whose past was not corrected in the releases of the tz database that the servers of these
tests have.
"""
OFFSETS: Final = ("02:00:00", "-08:30:00", "00:00:00.5", "1 day", "1 mon", "-15:59:59")
INTERVAL_RANGES: Final = (2, 4, 6, 8, 1024, 1032, 2048, 3072, 3080, 4096, 6144, 7168, 7176, 0x7FFF)
INTERVAL_MODIFIERS: Final = (
    -1,
    *(fields << 16 | precision for fields in INTERVAL_RANGES for precision in (0xFFFF, 0, 2, 6)),
)


def arguments_of(signature: str) -> list[str]:
    return signature[:-1].partition("(")[2].split(",")


SIGNATURES: Final = sorted(
    signature
    for signature in FUNCTIONS
    if TYPES & set(arguments_of(signature)) or signature.startswith(("make_", "to_timestamp"))
)


@pytest.fixture(scope="module")
def server(postgresql18):
    with zones_of(postgresql18), open_session(postgresql18.conninfo()) as session:
        yield session


def one_of(*texts: object) -> Make:
    return lambda random: str(random.choice(texts))


def small(random: Random) -> str:
    return str(random.choice([random.randint(0, 60), random.randint(-5, 15), random.randint(1, 12)]))


def makes_of(signature: str) -> list[str | Make]:
    """Generators for the arguments: mostly any values of their types."""
    name, types = signature.partition("(")[0], arguments_of(signature)
    makes: list[str | Make] = list(types)
    if types[0] == "text":
        makes[0] = one_of(*ZONES) if name == "timezone" else one_of(*UNITS)
    if types[-1] == "text":
        makes[-1] = one_of(*ZONES)
    if name == "timezone" and types[0] == "interval":
        makes[0] = one_of(*OFFSETS)
    if types[-1] == "int4" and name == types[0]:
        makes[-1] = one_of(*INTERVAL_MODIFIERS) if name == "interval" else one_of(-1, 0, 1, 2, 3, 4, 5, 6)
    if name in {"make_date", "make_time", "make_timestamp"}:
        makes = [
            small if one == "int4" else one_of("0", "59.999", "60", "61", "12.3456789", "-1", "NaN") for one in types
        ]
        if name != "make_time":
            makes[0] = lambda random: str(
                random.choice([2024, 1900, -1, -44, -4714, 294276, 294277, 5874898, 0, random.randint(-9999, 400000)])
            )
    return makes


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_function_gives_what_the_server_gives(server, signature):
    """B11, B25: values, NULLs and SQLSTATEs, over the whole range of the types."""
    random = Random(f"{SEED}{signature}")
    found = differences(server, signature, arguments_of(signature), rows(random, makes_of(signature), ROWS))
    assert not found, f"seed {SEED}: {found[:5]}"


def test_every_function_is_built_in_and_immutable_there_and_as_strict_as_here(server):
    """B25: what is not, a publication may not have; strictness decides who sees NULL."""
    ours = {signature: FUNCTIONS[signature].strict for signature in SIGNATURES}
    theirs = {signature: server.built_ins[signature] for signature in SIGNATURES}
    assert {one.volatility for one in theirs.values()} == {"i"}
    assert ours == {signature: one.is_strict for signature, one in theirs.items()}


@pytest.mark.parametrize(
    "signature",
    [
        "timestamp_mi(timestamp,timestamp)",
        "timestamptz_mi(timestamptz,timestamptz)",
        "age(timestamp,timestamp)",
        "age(timestamptz,timestamptz)",
        "extract(text,interval)",
        "date_part(text,interval)",
        "interval_mul(interval,float8)",
        "mul_d_interval(float8,interval)",
    ],
)
def test_a_function_that_was_changed_gives_what_the_publishers_version_gives(postgresql, signature):
    """B11: infinite intervals are new in 17, weeks of intervals in 18.

    Where integers of older servers wrap around, ours is an error, which stops as a wrong row would
    not.
    """
    random = Random(f"{SEED}{signature}")
    with open_session(postgresql.conninfo()) as session:
        makes = rows(random, makes_of(signature), 3 * ROWS, major=session.major)
        found = [
            one for one in differences(session, signature, arguments_of(signature), makes)
            if session.major >= 17 or not one.endswith("the subscriber ERROR 22008")
        ]  # fmt: skip
    assert not found, f"seed {SEED}: {found[:5]}"


# --- input functions ----------------------------------------------------------------------------


def number(random: Random) -> str:
    return random.choice(
        [
            "1",
            "2",
            "0",
            "15",
            "-1",
            "+2",
            "1.5",
            "-0.25",
            ".5",
            "1.",
            "2147483648",
            "99999999999999999999",
            "-1.999999",
            "0.0000005",
            "0.0000015",
            "7-3",
            "-7-3",
            "1-13",
            "0.7",
            "3.3",
        ]
    )


def unit(random: Random) -> str:
    return random.choice(
        [
            "year",
            "years",
            "mon",
            "mons",
            "day",
            "days",
            "d",
            "hour",
            "h",
            "min",
            "m",
            "sec",
            "s",
            "ms",
            "us",
            "microseconds",
            "millisecond",
            "week",
            "w",
            "decade",
            "century",
            "c",
            "mil",
            "y",
            "yr",
            "foo",
            "qtr",
            "ago",
        ]
    )


def clock(random: Random) -> str:
    return random.choice(
        [
            "01:02:03",
            "1:2",
            "-04:05:06.7",
            "+10:11",
            "12:13:14.1234567",
            "25:61",
            "1:59:60",
            "100:00",
            "12:30.5",
            "00:00:61",
            "-1:",
            "123456789012:00",
        ]
    )


def interval_text(random: Random) -> str:
    kind = random.randrange(4)
    if kind == 0:
        parts = [
            random.choice(
                [f"{number(random)} {unit(random)}", number(random) + unit(random), clock(random), number(random)]
            )
            for _ in range(random.randint(1, 4))
        ]
        return " ".join(parts) + random.choice(["", " ago"])
    if kind == 1:
        parts = [f"{number(random)} {unit(random)}" for _ in range(random.randint(1, 3))]
        return f"@ {' '.join(parts)} {random.choice(['', clock(random)])}"
    if kind == 2:
        counts = ("1", "2.5", "-3", "0.1", "1e2", "12", "+1", ".5", "1e20")
        days = "".join(random.choice(counts) + one for one in "YMWD" if random.random() < 0.5)
        return f"P{days}{random.choice(['', 'T'])}" + "".join(
            random.choice(counts[:4]) + one for one in "HMS" if random.random() < 0.5
        )
    return random.choice(
        ["infinity", "-infinity", "+ Infinity", "inf", "epoch", "", "now", "1", "P", "PT", "p1y", "infinity ago", "@", "ago",
         "1 day day", "1 2 3", "1 day,2 hours", "1 day - 2 hours", "1 sec 1 ms", "1.5 sec 1 ms", "2-1 3 4:05:06", "-2-1 +3 -4:05:06",
         "3 4:05", "2 1 h", "day 1", "1/2", "1.2.3 day", "1e2 days", "1 é", "1\u00a0day", "1 day 1 day"]
    )  # fmt: skip


def moment_text(random: Random) -> str:
    years = [
        "2024",
        "2023",
        "1999",
        "0001",
        "0000",
        "999",
        "12345",
        "294276",
        "294277",
        "5874897",
        "5874898",
        "99999999",
        "4714",
    ]
    date = f"{random.choice(years)}-{random.choice(['01', '1', '2', '12', '13', '00', '11'])}-{random.choice(['01', '9', '29', '30', '31', '32', '24', '00'])}"
    if random.random() < 0.1:
        date = random.choice(
            ["20240229", "20240230", "infinity", "-infinity", "+Infinity", "epoch", "xyz", "", "99990101"]
        )
    time = random.choice(
        ["", "", " 00:00:00", " 24:00:00", " 24:00:01", " 23:59:60", " 23:59:59.9999999", " 1:2:3", " 10:11", " 25:00", " 10:60",
         "T10:11:12", "t10:11:12.5", " 10:11:12.", " 10:11:12.123456789", " 10:11:61", "  12:00:00"]
    )  # fmt: skip
    return (
        date + time + (zone_text(random) if time else "") + random.choice(["", "", "", " BC", " bc", "BC", " AD", "  "])
    )


def zone_text(random: Random) -> str:
    return random.choice(
        [
            "",
            "",
            "",
            "Z",
            "z",
            " UTC",
            "+00",
            "+05",
            "-5",
            "+05:30",
            "-0530",
            " +0530",
            "+15:59",
            "+16",
            "+05:60",
            "+5:30:15",
            "-00",
        ]
    )


def time_text(random: Random) -> str:
    times = [
        "00:00:00",
        "24:00:00",
        "24:00:01",
        "23:59:60",
        "23:59:59.9999999",
        "1:2:3",
        "10:11",
        "25:00",
        "10:60",
        "10:11:12.",
        "10:11:12.123456789",
        "23:59:60.5",
    ]
    return random.choice(times) + zone_text(random)


def usual_text(random: Random) -> str:
    """A date or time in a common notation, or a text that is similar to one."""
    chance = random.random()
    if chance < 0.1:
        return random.choice(USUAL)
    pieces = [random.choice(PIECES) for _ in range(random.choice([1, 2, 2, 3, 3, 4, 5]))]
    if chance < 0.5:
        pieces.insert(random.randint(0, 1), random.choice(DATES))
    if chance < 0.3:
        pieces.insert(random.randint(0, len(pieces)), random.choice(CLOCKS))
    text = random.choice([" ", " ", " ", "", ",", "-", "/"]).join(pieces[: random.randint(1, 4)])
    if random.random() < 0.2:
        at = random.randint(0, len(text))
        text = text[:at] + random.choice(list("0123456789-+/:. ,atbczj")) + text[at:]
    return text


USUAL: Final = (
    "January 8, 1999", "1999-01-08", "1/8/1999", "1/18/1999", "13/8/1999", "01/02/03", "1999-Jan-08", "Jan-08-1999", "08-Jan-1999", "99-Jan-08",
    "08-Jan-99", "Jan-08-99", "19990108", "990108", "1999.008", "J2451187", "January 8, 99 BC", "J2451187.5", "04:05:06.789", "04:05", "040506",
    "04:05 AM", "04:05 PM", "12:00 AM", "13:00 PM", "04:05:06 PST", "20011225T040506.789-07", "2001-12-25 04:05:06 America/New_York",
    "2003-04-12 04:05:06 Europe/Berlin", "Fri Feb 7 15:23:27 1997 PST", "Feb-7-1997 15:23:27", "1997.038 15:23:27", "970207 152327",
    "97038 152327", "epoch", "-infinity", "allballs", "2024-01-01 allballs", "2024-07-01 12:00 MET DST", "2024-07-01 12:00 EDT DST", "20240101 259999",
    "999999999.100", "99999.366", "J 5", "2024-03-31 02:30 europe/berlin", "2024-03-31 12 pm", "10:00 MSK", "2012-01-01 10:00 MSK", "T040506", "040506+08",
    "040506-0830", "04:05:06 BST", "2024-1-1 10:00 GMT+5", "x" * 200, "1 " * 30, "2024-01-01" + " at" * 24 + " ,", "2024-01-01" + " at" * 24 + " ", "2024-01-01 10:00 <+03>-3", "12:30.5", "now", "today", "24:00 PM", "1e5",
)  # fmt: skip
DATES: Final = (
    "1999-01-08", "2/29/2024", "2/29/2023", "13/1/99", "Feb 29, 2024", "29 February 2024", "1-Mar-05", "20240731", "991231", "2024.366", "2023.366", "24-2-29",
    "12-31", "J2451545", "5874897-12-31", "294276-12-31", "4714-11-24 BC", "4713-1-1 BC", "0-1-1", "00-1-1", "1.2.2024", "31.12.2024", "2024/7/4", "July 4 76",
)  # fmt: skip
CLOCKS: Final = (
    "04:05", "23:59:59.999999", "24:00", "24:00:01", "12:00 am", "12:59 pm", "0:0:60", "T10", "t101112", "T10:11:12Z", "1011", "101112.5", "10:11+02", "10:11 CET",
    "10:11 MSK", "10:11 Europe/Berlin", "10:11 EST5EDT", "10:60", "25:00", "10:11 -15:59:59", "10:11+1600", "10:11 dst", "10:11 EST dst",
)  # fmt: skip
PIECES: Final = (
    "1", "08", "99", "1999", "00", "12345", "123456", "20240101", "001", "366", "31", "3.5", ".5", "2024.5", "jan", "Sept", "MAY", "mon", "tues", "am", "PM", "bc", "AD",
    "at", "on", "t", "y", "j", "jd", "julian", "dow", "dst", "utc", "Z", "EST", "edt", "msk", "Europe/Berlin", "+02", "-0330", "+ 5", "-infinity", "epoch", "allballs", "x", "é",
    "10:11", "2024-", "-", "/", "99999999999", "America/Nowhere", "gmt+3",
)  # fmt: skip


INPUTS: Final[dict[str, tuple[Callable[[Random], str], tuple[int, ...]]]] = {
    "date": (moment_text, (-1,)),
    "time": (time_text, (-1, 0, 3)),
    "timetz": (time_text, (-1, 2)),
    "timestamp": (moment_text, (-1, 0, 3)),
    "timestamptz": (moment_text, (-1, 5)),
    "interval": (interval_text, INTERVAL_MODIFIERS),
}
USUAL_INPUTS: Final = ("date", "time", "timetz", "timestamp", "timestamptz")


@pytest.mark.parametrize("name", INPUTS)
def test_text_is_read_as_the_server_reads_it_or_refused(server: Server, name):
    """B27: a constant's text, and what is wrong with it; type modifiers included."""
    make, modifiers = INPUTS[name]
    random, oid = Random(f"{SEED}{name}"), server.oid(name)
    count, refused, wrong = 0, 0, []
    for modifier in modifiers:
        texts = [make(random) for _ in range(max(40, 1000 // len(modifiers)))]
        call = f"{name}_in(({{0}})::cstring, 0, {modifier})" if name != "date" else "date_in(({0})::cstring)"
        for text, theirs in zip(texts, server.ask(call, [(text,) for text in texts]), strict=True):
            value, error = read(oid, text, modifier)
            ours = error or show(oid, value)
            count += 1
            refused += ours == REFUSED
            if ours not in {theirs, REFUSED}:
                wrong.append(f"{text!r} with modifier {modifier}: {theirs} is the server's, {ours} is ours")
    assert not wrong, f"seed {SEED}: {wrong[:5]}"
    assert refused < count / 5


@pytest.mark.parametrize("name", USUAL_INPUTS)
def test_the_usual_spellings_are_read_as_the_server_reads_them(server: Server, name):
    """B27: months in letters, numbers that run together, am and pm, zones of every kind; what
    depends on the clock is refused.
    """
    random, oid = Random(f"{SEED}{name} usual"), server.oid(name)
    texts = [*USUAL, *(usual_text(random) for _ in range(4000))]
    call = f"{name}_in(({{0}})::cstring, 0, -1)" if name != "date" else "date_in(({0})::cstring)"
    refused, wrong = 0, []
    for text, theirs in zip(texts, server.ask(call, [(text,) for text in texts]), strict=True):
        value, error = read(oid, text)
        ours = error or show(oid, value)
        refused += ours == REFUSED
        if ours not in {theirs, REFUSED}:
            wrong.append(f"{text!r}: {theirs} is the server's, {ours} is ours")
    assert not wrong, f"seed {SEED}: {len(wrong)} {wrong[:8]}"
    assert refused < len(texts) / 20
