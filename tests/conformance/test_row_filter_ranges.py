"""Ranges and multiranges of filters beside the server's own: their text, what is asked about two of
them, and what is made of them (rules B11, B25).

The values differ from run to run; a failure shows the seed, and ``SEED`` repeats it.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from subscriber.postgres.expressions.functions import FUNCTIONS
from tests.random_seed import random_seed
from tests.server_functions import REFUSED, Row, differences, open_session, read, show

pytestmark = pytest.mark.server

SEED: Final = random_seed()
VALUES: Final = {
    "int4": ("0", "1", "2", "3", "5", "-1", "2147483647", "2147483646", "-2147483648"),
    "int8": ("0", "1", "2", "3", "9223372036854775807", "-9223372036854775808"),
    "numeric": ("0", "1", "1.0", "1.50", "2", "NaN", "Infinity", "-Infinity"),
    "date": ("2024-02-28", "2024-02-29", "2024-03-01", "infinity", "-infinity", "5874897-12-31", "4714-11-24 BC"),
    "timestamp": ("2024-01-01 00:00:00", "2024-01-01 00:00:00.5", "2024-01-02", "infinity", "-infinity"),
    "timestamptz": ("2024-01-01 00:00:00+00", "2024-01-01 02:00:00+02", "2024-01-02 Europe/Berlin", "infinity", "-infinity"),
}  # fmt: skip
SUBTYPES: Final = {
    "int4range": "int4",
    "int8range": "int8",
    "numrange": "numeric",
    "daterange": "date",
    "tsrange": "timestamp",
    "tstzrange": "timestamptz",
}
MULTIRANGES: Final = {name.replace("range", "multirange"): name for name in SUBTYPES}
ODD: Final = (
    "", "empty", " EMPTY ", "emptyx", "empty x", "[", "(,", "(,)", "[,]", " [1,2) ", "[1,2) x", "1,2", "[1 2]", "[1,2,3]", "[1,", '["1","2"]', "[\\1,2]",
    '["1""",2]', "[ 1 , 2 ]", '[""," 2"]', "(1,1)", "[2,1]", "[1,2", "[1,2\\", "((1,2)", "[a,b]", "[,", "[é,1]",
)  # fmt: skip
ODD_MULTIRANGES: Final = (
    "", "empty", "{", "}", "{}", " { } ", "{,}", "{[1,2)", "{[1,2),}", "{,[1,2)}", "{[1,2)}x", "{[1,2)} ", "{[1,2)[3,4)}", "{[1,2) , (5,)}", "{empty}", "{EMPTY,[1,2)}",
    "{emptyx}", "{ empty , empty }", "{x}", "{[1,2]]}", '{["1","2"]}', '{["1""",2]}', '{["1", "2)"]}', "{[\\1,2]}", "{[\\ 1,2]}", "{[1,2\\", '{["1\\"",2]}', '{["', "{[1,\\]2]}",
    "{[2,1]}", "{[a,b]}", "{(1,2]", "{[1,2)}{}", "{[,],[,]}", "{empty[1,2)}", "{[1,2)empty}", "{[é,1]}", "\v{\v[1,2)\v}\v", "{[1,2,3]}", "{[1]}", "[1,2)", "{{[1,2)}}",
)  # fmt: skip
SIGNATURES: Final = sorted(one for one in FUNCTIONS if "anyrange" in one or "anymultirange" in one)
CONSTRUCTORS: Final = sorted(one for one in FUNCTIONS if one.partition("(")[0] in SUBTYPES)
MULTIRANGE_CONSTRUCTORS: Final = sorted(
    one for one in FUNCTIONS if one.partition("(")[0] in MULTIRANGES and not one.endswith("()")
)


def range_text(random: Random, name: str) -> str:
    if random.random() < 0.07:
        return "empty"
    low, high = (random.choice(["", *VALUES[SUBTYPES[name]]]) for _ in range(2))
    if random.random() < 0.8 and low and high:
        low, high = sorted((low, high), key=VALUES[SUBTYPES[name]].index)
    return f"{random.choice('[(')}{low},{high}{random.choice('])')}"


def multirange_text(random: Random, name: str) -> str:
    return "{" + ",".join(range_text(random, MULTIRANGES[name]) for _ in range(random.randrange(4))) + "}"


def array_text(random: Random, name: str) -> str:
    elements = [random.choice(["NULL", *[f'"{range_text(random, name)}"'] * 9]) for _ in range(random.randrange(5))]
    whole = "{" + ",".join(elements) + "}"
    return "{" + whole + "}" if elements and random.random() < 0.1 else whole


def value_text(random: Random, name: str) -> str:
    if name in MULTIRANGES:
        return multirange_text(random, name)
    if name in SUBTYPES:
        return range_text(random, name)
    return array_text(random, name[1:]) if name[1:] in SUBTYPES else random.choice(VALUES[name])


@pytest.fixture
def session(postgresql):
    with open_session(postgresql.conninfo()) as found:
        yield found


@pytest.mark.parametrize("name", [*SUBTYPES, *MULTIRANGES])
def test_the_text_of_a_range_is_read_as_the_server_reads_it(session, name):
    """B26: how it is kept, and what is no range."""
    random, oid = Random(f"{SEED}{name}"), session.oid(name)
    odd = ODD if name in SUBTYPES else ODD_MULTIRANGES
    texts = [*odd, *(value_text(random, name) for _ in range(300))]
    wrong = []
    for text, theirs in zip(texts, session.ask(f"{{0}}::{name}", [(text,) for text in texts]), strict=True):
        value, error = read(oid, text)
        ours = error or show(oid, value)
        if ours != theirs:
            wrong.append(f"{text!r}: {theirs} is the server's, {ours} is ours")
    assert not wrong, f"seed {SEED}: {wrong[:5]}"


@pytest.mark.parametrize("name", SUBTYPES)
def test_functions_of_ranges_give_what_the_server_gives(session, name):
    """B11: for every range type, errors included; a text that is no range is the same error in
    both.
    """
    found, random = [], Random(f"{SEED}{name} functions")
    multirange = name.replace("range", "multirange")
    for signature in SIGNATURES:
        types = [
            {"anyrange": name, "anymultirange": multirange, "anyelement": SUBTYPES[name]}[one]
            for one in signature[:-1].partition("(")[2].split(",")
        ]
        rows: list[Row] = [tuple(value_text(random, one) for one in types) for _ in range(120)]
        found += differences(session, signature, types, rows)
    assert not found, f"seed {SEED}: {len(found)} {found[:5]}"


@pytest.mark.parametrize("signature", CONSTRUCTORS)
def test_a_range_is_made_of_values_as_the_server_makes_it(session, signature):
    """B11: NULL is an infinite bound, and no flags."""
    random = Random(f"{SEED}{signature}")
    types = signature[:-1].partition("(")[2].split(",")
    makes = {**VALUES, "text": ("[]", "[)", "(]", "()", "", "x", "[[")}
    rows: list[Row] = [
        tuple(None if random.random() < 0.1 else random.choice(makes[one]) for one in types) for _ in range(100)
    ]
    found = differences(session, signature, types, rows)
    assert not found, f"seed {SEED}: {found[:5]}"


@pytest.mark.parametrize("signature", MULTIRANGE_CONSTRUCTORS)
def test_a_multirange_is_made_of_ranges_as_the_server_makes_it(session, signature):
    """B11: in order, without empty ranges, and joined where they overlap or meet."""
    random = Random(f"{SEED}{signature}")
    types = [signature[:-1].partition("(")[2]]
    rows: list[Row] = [(value_text(random, types[0]),) for _ in range(200)]
    found = differences(session, signature, types, rows)
    assert not found, f"seed {SEED}: {found[:5]}"


def test_equal_ranges_that_the_server_may_exchange_are_refused():
    """Its sort keeps the order of up to six."""
    ranges = ["[3,4]", "[1,2]", *(f"[{number},{number}]" for number in range(5, 9)), "[1.0,2.00]"]
    assert read(4532, "{" + ",".join(ranges) + "}")[1] == REFUSED
    assert read(4532, "{" + ",".join(ranges[1:]) + "}")[1] is None
