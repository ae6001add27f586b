"""Functions of json, jsonb, inet, uuid, macaddr and arrays, beside the server's own (rules B11,
B25), and their input functions.

The values differ from run to run; a failure shows the seed, and ``SEED`` repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import pytest

from subscriber.postgres.expressions.functions import FUNCTIONS
from tests.random_seed import random_seed
from tests.server_functions import REFUSED, differences, open_session, read, show
from tests.typed_values import VALUES, Make, array_of, rows

pytestmark = pytest.mark.server

SEED: Final = random_seed()
TYPES: Final = frozenset({"uuid", "json", "jsonb", "inet", "cidr", "macaddr", "macaddr8"})
POLYMORPHIC: Final = frozenset({"anyarray", "anycompatiblearray", "anyelement", "anycompatible"})
ROWS: Final = 200
ROWS_OF_ARRAYS: Final = 25


def one_of(*texts: str) -> Make:
    return lambda random: random.choice(texts)


KEYS: Final = one_of("a", "b", "aa", "1", "0", "-1", "2", "", "é", "x", " 1", "1 ", "+1", "99999999999")
SUBSCRIPTS: Final = one_of("0", "1", "2", "-1", "-2", "3", "-4", "100")
SIZES: Final = one_of("0", "1", "2", "3", "-1", "2", "2")
MASKS: Final = one_of("0", "1", "-1", "8", "24", "32", "33", "64", "128", "129")
FEW: Final = one_of("0", "1", "2", "3", "-1", "2147483647")
ELEMENTS: Final[dict[str, Make]] = {
    **{
        name: VALUES[name]
        for name in (
            "text", "numeric", "float8", "date", "time", "timestamp", "timetz", "interval", "uuid", "bytea", "inet", "cidr", "bool", "macaddr"
        )
    },
    "int4": FEW,
    "int8": FEW,
    "float8": one_of("0", "1", "-0", "NaN", "Infinity", "-Infinity", "1.5"),
    "varchar": VALUES["text"],
    "bpchar": one_of("a", "a ", "b", " a", "", "ab"),
}  # fmt: skip


def arguments_of(signature: str) -> list[str]:
    return signature[:-1].partition("(")[2].split(",")


SIGNATURES: Final = sorted(one for one in FUNCTIONS if TYPES & set(arguments_of(one)))
ARRAY_SIGNATURES: Final = sorted(one for one in FUNCTIONS if POLYMORPHIC & set(arguments_of(one)) and "array" in one)


@pytest.fixture(scope="module")
def session(postgresql):
    with open_session(postgresql.conninfo()) as opened:
        yield opened


@pytest.fixture(scope="module")
def newest(postgresql18):
    with open_session(postgresql18.conninfo()) as opened:
        yield opened


def makes_of(signature: str, random: Random) -> Iterator[str | Make]:
    """Generators for the arguments."""
    for type_name in arguments_of(signature):
        if type_name == "_text":
            yield array_of(KEYS, dimensions=random.choice([1, 1, None]))
        elif type_name == "text":
            yield KEYS
        elif type_name == "int4":
            yield MASKS if "mask" in signature else SUBSCRIPTS
        elif type_name == "int8":
            yield one_of("0", "1", "-1", "255", "-256", "4294967296", "9223372036854775807", "-9223372036854775808")
        else:
            yield type_name


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_function_gives_what_the_server_gives(session, signature):
    """B11, B25: on each version that has it."""
    if signature not in session.built_ins:
        pytest.skip(f"PostgreSQL {session.major} has none")
    random = Random(f"{SEED}{signature}")
    types = [one.replace("_text", "text[]") for one in arguments_of(signature)]
    found = differences(session, signature, types, rows(random, list(makes_of(signature, random)), ROWS))
    assert not found, f"seed {SEED}: {found[:5]}"


def nested_document(random: Random, depth: int = 0) -> str:
    """A document of few keys and short arrays, in which a short path leads somewhere."""
    if depth == 3 or random.random() < 0.1:
        return random.choice(["1", "null", '"a"', "{}", "[]"])
    inner = [nested_document(random, depth + 1) for _ in range(random.randint(0, 4))]
    if random.random() < 0.5:
        return f"[{','.join(inner)}]"
    return "{" + ",".join(f'"{random.choice("ab")}":{one}' for one in inner) + "}"


def short_path(random: Random) -> str:
    return (
        "{"
        + ",".join(random.choice(["a", "a", "b", "0", "1", "-1", "-1", "-2"]) for _ in range(random.randint(0, 4)))
        + "}"
    )


@pytest.mark.parametrize("type_name", ["json", "jsonb"])
def test_a_path_leads_to_what_the_server_finds(session, type_name):
    """B11: with equal keys, and negative indexes in documents that have several arrays."""
    random = Random(f"{SEED}{type_name}")
    arguments = rows(random, [nested_document, short_path], 4000)
    signature = f"{type_name}_extract_path_text({type_name},_text)"
    found = differences(session, signature, [type_name, "text[]"], arguments)
    assert not found, f"seed {SEED}: {len(found)}: {found[:5]}"


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("signature", ARRAY_SIGNATURES)
def test_a_function_of_arrays_gives_what_the_server_gives(newest, signature, element):
    """B11, B25: for elements of each type, which are compared by its own operators."""
    types: list[str] = []
    makes: list[str | Make] = []
    for argument in arguments_of(signature):
        if argument in {"anyarray", "anycompatiblearray"}:
            types.append(f"{element}[]")
            makes.append(array_of(ELEMENTS[element]))
        elif argument in POLYMORPHIC:
            types.append(element)
            makes.append(ELEMENTS[element])
        else:
            types.append(argument.replace("_int4", "int4[]"))
            makes.append(array_of(SIZES, dimensions=1) if argument == "_int4" else SUBSCRIPTS)
    random = Random(f"{SEED}{signature}{element}")
    found = differences(newest, signature, types, rows(random, makes, ROWS_OF_ARRAYS))
    assert not found, f"seed {SEED}: {found[:5]}"


def test_every_function_is_immutable_there_and_as_strict_as_here(session):
    """B25: publications cannot use other functions; strictness decides how NULL is passed."""
    there = [one for one in (*SIGNATURES, *ARRAY_SIGNATURES) if one in session.built_ins]
    assert {session.built_ins[one].volatility for one in there} == {"i"}
    assert {one: FUNCTIONS[one].strict for one in there} == {one: session.built_ins[one].is_strict for one in there}


# --- input functions ----------------------------------------------------------------------------


def network(random: Random) -> str:
    """A network whose address has several runs of zeros."""
    if random.random() < 0.4:
        bits = random.randint(0, 32)
        address = random.getrandbits(32) >> 32 - bits << 32 - bits if bits else 0
        return f"{'.'.join(map(str, address.to_bytes(4)))}/{bits}"
    words = [random.choice([0, 0, 0, 1, 0xFFFF, 0xAB0, 0x100]) for _ in range(8)]
    if random.random() < 0.3:
        words[:6] = [0, 0, 0, 0, 0, random.choice([0, 0xFFFF])]
    bits = random.randint(0, 128)
    address = int("".join(f"{word:04x}" for word in words), 16) >> 128 - bits << 128 - bits
    return f"{':'.join(address.to_bytes(16)[at : at + 2].hex() for at in range(0, 16, 2))}/{bits}"


def test_a_network_is_abbreviated_as_the_server_does(session):
    """B11: with its own opinion of which zeros are left out."""
    random = Random(f"{SEED}abbrev")
    found = differences(session, "abbrev(cidr)", ["cidr"], [(network(random),) for _ in range(3000)])
    assert not found, f"seed {SEED}: {len(found)}: {found[:5]}"


WRONG_DOCUMENTS: Final = (
    r'"\u0000"x', r'1 "\u0000"', "[1e999999, ]", "[1e999999", r'["\u0000", NaN]', r'"\ud800\u0000"', r'"\u0000\ud800"', r'"\u0000\x"', r'"\x\u0000"', "[1,2", "1e999999x",
    "1e999999 x", "1e999999 1", '1e999999 "', '"a', r'"\u0000', r'{"\u0000":1,}', r'{"a":"\u0000"', r'{"a" "\u0000"', r'{1:"\u0000"}', r'["\ude00" "\u0000"]', r'"\ud800" "\u0000"',
    r'nullx"\u0000"', r'null"\u0000"', r'[-"\u0000"]', r'[01,"\u0000"]', r'"\u000"\u0000', "{,1e999999}", "[1e999999}", '{"a":1e999999,}', '{"a":1e999999 1', "", " ", "1e999999\x01",
    "[1e999999\n\t,", "\u00a01e999999", r'"\ud800x\u0000"', r'"\ud83d\ude00\u0000"', '"\x01\\u0000"', '"\\u0000\x01"', '[1e999999 "a"', "Infinity", '{"a":Infinity,"b', "[1.e1]", "[1e]", "- 1",
)  # fmt: skip


def test_a_wrong_document_has_the_error_that_the_server_finds_first(session):
    """B27: 22P05, 22003 or 22P02."""
    answers = session.ask("{0}::jsonb", [(text,) for text in WRONG_DOCUMENTS])
    ours = [read(session.oid("jsonb"), text)[1] for text in WRONG_DOCUMENTS]
    assert dict(zip(WRONG_DOCUMENTS, ours, strict=True)) == dict(zip(WRONG_DOCUMENTS, answers, strict=True))


INPUTS: Final[dict[str, tuple[Make, Sequence[str]]]] = {
    "json": (VALUES["json"], [*'{}[]",:\\ntrue0123456789.eE+-\x01\x7f\t \n/u', "NaN", "Infinity", "\\u0000", "\\ud83d", "\\ude00",
                              "\\x", "00", "é", "null", '"a"', "\u00a0", "\ufeff"]),
    "jsonb": (VALUES["jsonb"], [*'{}[]",:\\ntrue0123456789.E+-\x01\x7f\t \n/u', "NaN", "\\u0000", "\\ud83d", "\\ude00", "00", "null"]),
    "int4[]": (array_of(FEW), [*'{}",\\ NULL12ab=[]:\t\n-', "{}", "NULL", "null", '"', "[1:2]=", "[2:1]=", '""', "\v"]),
    "text[]": (array_of(VALUES["text"]), [*'{}",\\ NULL12ab=[]:\t\n-', "{}", "NULL", "null", '"', "[1:2]=", "[2:1]=", '""', "\v"]),
    "inet": (VALUES["inet"], [*"0123456789abcdefABCDEF.:/ x", "::", "ffff", "255", "256", "/32", "/8", "/128", "/129", "/00", "/032", "%1"]),
    "cidr": (VALUES["cidr"], [*"0123456789abcdefABCDEF.:/ x", "::", "ffff", "255", "256", "/32", "/8", "/128", "/129", "/00", "/032"]),
    "uuid": (VALUES["uuid"], [*"0123456789abcdefABCDEF-{}g "]),
    "macaddr": (VALUES["macaddr"], [*"0123456789abcdefABCDEF-:. g"]),
    "macaddr8": (VALUES["macaddr8"], [*"0123456789abcdefABCDEF-:. g"]),
}  # fmt: skip


def changed(random: Random, text: str, parts: Sequence[str]) -> str:
    """The text with at most one error, so that the order in which errors are found does not
    matter.
    """
    place = random.randint(0, len(text))
    match random.randrange(4):
        case 0:
            return text[:place] + random.choice(parts) + text[place:]
        case 1:
            return text[:place] + text[place + 1 :]
        case 2:
            return text[:place] + random.choice([one for one in parts if len(one) == 1]) + text[place + 1 :]
        case _:
            return text


@pytest.mark.parametrize("name", INPUTS)
def test_text_is_read_as_the_server_reads_it_or_refused(newest, name):
    """B27: a constant's text, and whether it is one."""
    random = Random(f"{SEED}{name}")
    make, parts = INPUTS[name]
    values = [make(random) for _ in range(1000)]
    texts = [changed(random, text, parts) for text in values]
    oid = newest.oid(name)
    answers = newest.ask(f"{{0}}::{name}", [(text,) for text in texts])
    ours = [error or show(oid, value) for value, error in (read(oid, text) for text in texts)]
    wrong = [
        f"{text!r}: {their} is the server's, {our} is ours"
        for text, their, our in zip(texts, answers, ours, strict=True)
        if our not in {their, REFUSED}
    ]
    assert not wrong, f"seed {SEED}: {wrong[:5]}"
    kept = [our for our, text, value in zip(ours, texts, values, strict=True) if text == value]
    assert len(kept) > 100
    assert REFUSED not in kept


LSNS: Final = one_of("0/0", "FFFFFFFF/FFFFFFFF", "16/B374D848", "0/1", "ffffffff/0")
COUNTS: Final = one_of(
    "NaN", "Infinity", "-Infinity", "0.5", "-0.5", "1.5", "0.4", "-0.4", "18446744073709551615", "18446744073709551615.5", "18446744073709551616", "-1",
    "1e400", "1e-300", "4294967296",
)  # fmt: skip


@pytest.mark.parametrize("signature", sorted(one for one in FUNCTIONS if "pg_lsn" in one))
def test_a_function_of_positions_in_the_log_gives_what_the_server_gives(session, signature):
    """B11: comparisons, differences, and how far a position can be moved."""
    random = Random(f"{SEED}{signature}")
    makes = {"pg_lsn": LSNS, "numeric": COUNTS, "int8": one_of("0", "1", "-1", "9223372036854775807")}
    types = arguments_of(signature)
    found = differences(session, signature, types, [tuple(makes[name](random) for name in types) for _ in range(ROWS)])
    assert not found, f"seed {SEED}: {found[:5]}"
