"""Functions of text, name, "char", bytea and bit strings, patterns and regular expressions, beside
the server's own (rules B11, B25).

The values differ from run to run; a failure shows the seed, and ``SEED`` repeats it.
Columns are of collation "C", by which our functions go where they go by any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

import pyarrow as pa
import pytest

from subscriber.base.errors import DataException, NotSupportedError
from subscriber.postgres.expressions.analyze.tree import ComputedConst
from subscriber.postgres.expressions.evaluate.calls import Apply, function_for, of_type
from subscriber.postgres.expressions.evaluate.row_values import ScalarValue, Value, filtered, listed, read_column
from subscriber.postgres.expressions.functions import FUNCTIONS
from tests.random_patterns import like_pattern, regular_expression, similar_pattern, subject
from tests.random_seed import random_seed
from tests.server_functions import Row, Server, open_session, read, show

pytestmark = pytest.mark.server

SEED: Final = random_seed()
Make = Callable[[Random], str]

CHARACTERS: Final = "aabbcAB 1_%\\é😀'\"\n\t-[]{}"
TEXTS: Final = (
    "",
    " ",
    "a",
    "a ",
    "  a",
    "NSW",
    "É",
    "ß",
    "a%b",
    "%",
    "_",
    "\\",
    "\\\\",
    "x" * 70,
    "é" * 40,
    "hex",
    "escape",
)


def text(random: Random) -> str:
    if random.random() < 0.3:
        return random.choice(TEXTS)
    return "".join(random.choice(CHARACTERS) for _ in range(random.randint(0, 8)))


def bits(random: Random) -> str:
    length = random.choice([0, 1, 2, 3, 3, 3, 8, 9, 16, 31, 32, 33, 64, 65])
    return "".join(random.choice("01") for _ in range(length))


def hexadecimal(random: Random) -> str:
    return "\\x" + bytes(random.choice(b"aab\\ \x00\x7f\x80\xff%_") for _ in range(random.randint(0, 9))).hex()


def one_of(*texts: str) -> Make:
    return lambda random: random.choice(texts)


INTEGERS: Final = one_of("0", "1", "2", "3", "-1", "-2", "5", "9", "33", "2147483647", "-2147483648")
MAKES: Final[dict[str, Make]] = {
    "text": text,
    "varchar": text,
    "bpchar": lambda random: text(random).strip(" ") + random.choice(["", " ", "   "]),
    "name": text,
    "char": one_of("", "a", "b", " ", "Z", "\\303", "\\377", "\\200"),
    "bytea": hexadecimal,
    "bit": bits,
    "varbit": bits,
    "bool": one_of("t", "f"),
    "int2": one_of("0", "1", "-1", "32767", "-32768", "258"),
    "int4": INTEGERS,
    "int8": one_of("0", "1", "-1", "7", "8", "40", "9223372036854775807", "-9223372036854775808"),
}
TEXTUAL: Final = frozenset({"text", "varchar", "bpchar", "name", "char", "bytea", "bit", "varbit"})
ENCODED: Final = one_of(
    "QUJD",
    "QUI=",
    "QQ==",
    "Q Q\n==",
    "QQ=",
    "=",
    "Q",
    "Q!==",
    "616263",
    "6 16",
    "61 62",
    "6g",
    "a\\\\b",
    "a\\101",
    "\\",
    "\\400",
)
WRITTEN: Final[dict[str, dict[int, Make]]] = {
    "bpchar(bpchar,int4,bool)": {1: one_of("-1", "4", "5", "6", "9", "20")},
    "varchar(varchar,int4,bool)": {1: one_of("-1", "4", "5", "6", "9", "20")},
    "bit(bit,int4,bool)": {1: one_of("-1", "0", "1", "3", "8", "70", "2147483647")},
    "varbit(varbit,int4,bool)": {1: one_of("-1", "0", "1", "3", "8", "70")},
    "bit(int4,int4)": {1: one_of("-1", "0", "1", "3", "31", "32", "33", "70", "2147483647")},
    "bit(int8,int4)": {1: one_of("-1", "0", "1", "3", "63", "64", "65", "70")},
    "chr(int4)": {0: one_of("-1", "0", "1", "65", "233", "128512", "55295", "55296", "57343", "57344", "1114111", "1114112")},
    "decode(text,text)": {0: ENCODED, 1: one_of("hex", "base64", "escape", "ESCAPE", "none")},
    "encode(bytea,text)": {1: one_of("hex", "base64", "escape", "Base64", "")},
    "unistr(text)": {0: one_of("\\0041", "a\\\\b", "\\u00e9", "\\+01F600x", "\\U0001F600", "\\d83d\\de00", "\\d83dx", "\\d83d", "\\de00", "\\0000", "\\12", "\\", "\\+110000", "\\d83d\\\\")},
    "name(text)": {0: lambda random: random.choice("xé😀") * random.randint(0, 70)},
    "like_escape(text,text)": {1: one_of("", "\\", "%", "a", "é", "ab")},
    "like_escape(bytea,bytea)": {1: one_of("\\x", "\\x5c", "\\x25", "\\x61", "\\x6161")},
    "string_to_array(text,text,text)": {1: one_of("", "a", "b", "aa", "é"), 2: one_of("", "a", "b", " ")},
    "split_part(text,text,int4)": {1: one_of("", "a", "b", "aa", "é")},
    "sha224(bytea)": {0: hexadecimal},
    "parse_ident(text,bool)": {0: one_of("a", "A.b", ' a . "B" ', '"a""b"."c', '""', ".a", "a.", "a..b", "a b", "É.ß$1", "1a", "a1 ;", "", " ", '"a.b".c', "a\v.b", 'a"b"', '"a"b')},
}  # fmt: skip
"""Arguments that random ones would seldom produce, by their position."""


def types_of(signature: str) -> list[str]:
    return signature[:-1].partition("(")[2].split(",")


SIGNATURES: Final = sorted(
    signature
    for signature, one in FUNCTIONS.items()
    if MAKES.keys() >= set(types_of(signature))
    and (one.specialise is None or re.match("(like|[^_]+like)[(]", signature))
)
"""The functions without those of regular expressions, which have separate tests."""
NAMES: Final = {"bit": '"bit"', "char": '"char"'}
"""Types whose names without quotation marks are other types."""


def names_of(signature: str) -> list[str]:
    return [NAMES.get(one, one) for one in types_of(signature)]


@pytest.fixture(scope="module")
def server(postgresql18) -> Iterator[Server]:
    with open_session(postgresql18.conninfo()) as session:
        yield session


def random_row(random: Random, signature: str) -> Row:
    written = WRITTEN.get(signature, {})
    makes = [written.get(place, MAKES[name]) for place, name in enumerate(types_of(signature))]
    return tuple(None if random.random() < 0.03 else make(random) for make in makes)


def column(server: Server, type_name: str, texts: Sequence[str | None]) -> Value:
    oid = server.oid(type_name)
    return read_column(
        pa.array([None if one is None else show(oid, read(oid, one)[0]) for one in texts], pa.string()), oid
    )


def answers(apply: Apply, raises: bool, result: int, values: Sequence[Value], count: int) -> list[str | None]:
    """The answers for all rows at once, as a filter does it; one by one if one of them raises an
    error.
    """
    try:
        return [show(result, value) for value in listed(apply(values, count), count)]
    except DataException:
        assert raises
    found: list[str | None] = []
    for row in range(count):
        one = pa.array([place == row for place in range(count)])
        try:
            found.append(show(result, listed(apply([filtered(value, one) for value in values], 1), 1)[0]))
        except DataException as error:
            found.append(f"ERROR {error.sqlstate}")
    return found


def test_functions_give_the_servers_results_and_errors(server):
    """B11: over columns, none of them constant."""
    textual = {server.oid(NAMES.get(name, name)) for name in TEXTUAL}
    compared, differences = 0, []
    for signature in SIGNATURES:
        names = names_of(signature)
        result = server.result_type(signature, names)
        if not textual & {result, *map(server.oid, names)}:
            continue  # numbers of numbers
        random = Random(f"{SEED} {signature}")
        rows = [random_row(random, signature) for _ in range(80)]
        apply, raises = function_for(signature, [of_type(server.oid(name)) for name in names], result, 180000)
        columns = [column(server, name, [row[place] for row in rows]) for place, name in enumerate(names)]
        ours = answers(apply, raises, result, columns, len(rows))
        theirs = server.call(signature, names, rows)
        compared += len(rows)
        differences += [
            f"{signature}{row}: {their!r} is the server's, {our!r} is ours"
            for row, their, our in zip(rows, theirs, ours, strict=True)
            if their != our
        ]
    assert differences == [], f"SEED={SEED}"
    assert compared > 10_000


# --- patterns ---------------------------------------------------------------------------------


def our_column(
    server: Server, signature: str, texts: Sequence[str], constants: dict[int, str | None]
) -> list[str | None] | str:
    """The answers to a call whose first argument is a column, or one answer for all rows: a
    refusal, or the error of a constant.
    """
    names = names_of(signature)
    oids = [server.oid(name) for name in names]
    result = server.result_type(signature, names)
    known = {place: read(oids[place], written)[0] for place, written in constants.items()}
    arguments = [
        ComputedConst(oid, 0, known[place]) if place in known else of_type(oid) for place, oid in enumerate(oids)
    ]
    values = [
        ScalarValue(known[place]) if place in known else column(server, names[place], texts)
        for place in range(len(oids))
    ]
    try:
        apply, raises = function_for(signature, arguments, result, 180000)
    except NotSupportedError:
        return "REFUSED"
    return answers(apply, raises, result, values, len(texts))


def differences_of_patterns(
    server: Server, signature: str, texts: Sequence[str], constants: dict[int, str | None]
) -> list[str]:
    """The differences for texts and a pattern; what this program refuses is no difference, nor is
    the order of two errors.
    """
    arguments = [constants.get(place) for place in range(len(types_of(signature)))]
    ours = our_column(server, signature, texts, constants)
    if ours == "REFUSED":
        return []
    theirs = server.call(signature, names_of(signature), [(text, *arguments[1:]) for text in texts])
    return [
        f"{signature} {text!r} {constants}: {their!r} is the server's, {our!r} is ours"
        for text, their, our in zip(texts, theirs, ours, strict=True)
        if their != our and (their, our) != ("ERROR 22023", "ERROR 2201B")
    ]


@pytest.mark.parametrize(
    "signature",
    [
        "textlike(text,text)",
        "textnlike(text,text)",
        "texticlike(text,text)",
        "texticnlike(text,text)",
        "bpcharlike(bpchar,text)",
        "namelike(name,text)",
        "bytealike(bytea,bytea)",
        "byteanlike(bytea,bytea)",
    ],
)
def test_like_with_a_constant_pattern_is_the_servers(server, signature):
    """B11: as a string or by RE2 over the column, blanks and newlines included; only a stray
    backslash is met step by step.
    """
    random = Random(f"{SEED} {signature}")
    is_bytes = "bytea" in signature
    differences = []
    for _ in range(60):
        pattern = like_pattern(random)
        texts = [text(random) if random.random() < 0.7 else like_pattern(random) for _ in range(15)]
        if is_bytes:
            pattern, texts = "\\x" + pattern.encode().hex(), ["\\x" + one.encode().hex() for one in texts]
        differences += differences_of_patterns(server, signature, texts, {1: pattern})
    assert differences == [], f"SEED={SEED}"


@pytest.mark.parametrize("references", [False, True], ids=["plain", "back references"])
def test_regular_expressions_match_and_capture_what_the_server_does(server, references):
    """B11: yes or no, the whole match, its captures and where the next one begins; also which
    expressions are none.
    """
    random = Random(f"{SEED} {references}")
    differences, refused = [], 0
    for _ in range(150):
        pattern = regular_expression(random, references=references)
        texts = [subject(random) for _ in range(8)]
        start = random.choice(["1", "2", "3"])
        for signature, constants in (
            ("textregexeq(text,text)", {}),
            ("texticregexne(text,text)", {}),
            ("regexp_match(text,text)", {}),
            ("regexp_replace(text,text,text,text)", {2: "<\\&|\\1|\\2\\\\>", 3: "g"}),
            ("regexp_instr(text,text,int4,int4,int4)", {2: start, 3: "2", 4: "1"}),
        ):
            differences += differences_of_patterns(server, signature, texts, {1: pattern, **constants})
        refused += our_column(server, "textregexeq(text,text)", texts, {1: pattern}) == "REFUSED"
    assert differences == [], f"SEED={SEED}"
    assert refused < 10


REGEXP_CALLS: Final[list[tuple[str, dict[int, Sequence[str]]]]] = [
    ("regexp_like(text,text,text)", {2: ["", "i", "c", "n", "g", "y", "ic", "q", "qx", "x"]}),
    ("regexp_count(text,text,int4,text)", {2: ["1", "2", "0", "-1", "20"], 3: ["", "i", "g"]}),
    ("regexp_instr(text,text,int4,int4,int4,text,int4)", {2: ["1", "3", "0"], 3: ["1", "2", "0"], 4: ["0", "1", "2"], 5: ["", "i"], 6: ["0", "1", "2", "-1"]}),
    ("regexp_substr(text,text,int4,int4,text,int4)", {2: ["1", "3", "0"], 3: ["1", "2", "0"], 4: ["", "i"], 5: ["0", "1", "2", "-1"]}),
    ("regexp_substr(text,text)", {}),
    ("regexp_match(text,text,text)", {2: ["", "i", "g", "n"]}),
    ("regexp_split_to_array(text,text,text)", {2: ["", "i", "g"]}),
    ("regexp_split_to_array(text,text)", {}),
    ("regexp_replace(text,text,text)", {2: ["", "x", "\\1\\2", "\\", "\\0\\9", "[\\&]"]}),
    ("regexp_replace(text,text,text,text)", {2: ["<\\&>"], 3: ["", "g", "gi", "1", "z"]}),
    ("regexp_replace(text,text,text,int4)", {2: ["<\\&>"], 3: ["1", "3", "0", "20"]}),
    ("regexp_replace(text,text,text,int4,int4,text)", {2: ["<\\&>"], 3: ["1", "2"], 4: ["0", "1", "2", "-1"], 5: ["", "g", "i"]}),
    ("substring(text,text)", {}),
    ("nameregexeq(name,text)", {}),
    ("bpcharicregexeq(bpchar,text)", {}),
]  # fmt: skip


@pytest.mark.parametrize(("signature", "choices"), REGEXP_CALLS, ids=[signature for signature, _ in REGEXP_CALLS])
def test_functions_of_regular_expressions_take_their_other_arguments_as_the_server_does(server, signature, choices):
    """B11: positions, flags and replacements, and what is wrong with them."""
    random = Random(f"{SEED} {signature}")
    differences = []
    for _ in range(40):
        constants = {place: random.choice(list(some)) for place, some in choices.items()}
        texts = [subject(random) for _ in range(6)]
        differences += differences_of_patterns(server, signature, texts, {1: regular_expression(random), **constants})
    assert differences == [], f"SEED={SEED}"


@pytest.mark.parametrize(
    ("signature", "choices"),
    [
        *REGEXP_CALLS,
        ("textregexeq(text,text)", {}),
        ("texticregexne(text,text)", {}),
        ("substring(text,text,text)", {2: ["#", "\\", "", "ab"]}),
        ("similar_to_escape(text,text)", {1: ["#", "\\", "", "ab"]}),
        ("similar_escape(text,text)", {1: ["#", "\\", ""]}),
    ],
)
def test_patterns_and_flags_that_are_columns_are_the_servers(server, signature, choices):
    """Patterns that are no constants are read at each row, with the server's results and the order
    of its errors.
    """
    random = Random(f"{SEED} {signature} columns")
    is_similar = "similar" in signature or signature == "substring(text,text,text)"
    pattern = similar_pattern if is_similar else regular_expression
    rows: list[Row] = []
    for _ in range(200):
        made = [subject(random), pattern(random), *("" for _ in types_of(signature)[2:])]
        if signature.startswith("similar"):
            made = [pattern(random), ""]
        for place, some in choices.items():
            made[place] = random.choice(list(some))
        # Where all arguments are constants, as they are for the server here, NULL would win over a
        # wrong escape character.
        some_null = random.random() < 0.1 and signature != "substring(text,text,text)"
        rows.append(tuple(None if some_null and random.random() < 0.3 else one for one in made))
    names = names_of(signature)
    result = server.result_type(signature, names)
    apply, raises = function_for(signature, [of_type(server.oid(name)) for name in names], result, 180000)
    columns = [column(server, name, [row[place] for row in rows]) for place, name in enumerate(names)]
    ours = []
    for place in range(len(rows)):
        one = pa.array([place == row for row in range(len(rows))])
        try:
            ours += answers(apply, raises, result, [filtered(value, one) for value in columns], 1)
        except NotSupportedError:
            ours.append("REFUSED")
    theirs = server.call(signature, names, rows)
    different = [one for one in zip(rows, theirs, ours, strict=True) if one[1] != one[2] != "REFUSED"]
    assert different == [], f"SEED={SEED}"
    assert ours.count("REFUSED") < len(rows) / (3 if is_similar else 10)


def test_expressions_of_sql_become_regular_ones_as_on_the_server(server):
    """B11: SIMILAR TO and SUBSTRING … SIMILAR; a pattern that minor releases read differently is
    refused.
    """
    random = Random(f"{SEED} similar")
    differences = []
    for _ in range(400):
        escape = random.choice(["#", "\\", "", "é", "ab", "a"])
        pattern = similar_pattern(random)
        differences += differences_of_patterns(
            server, "similar_to_escape(text,text)", [pattern], {0: pattern, 1: escape}
        )
        texts = [subject(random) for _ in range(4)]
        differences += differences_of_patterns(server, "substring(text,text,text)", texts, {1: pattern, 2: escape})
    assert differences == [], f"SEED={SEED}"


INPUTS: Final[dict[str, Sequence[str]]] = {
    "bytea": (
        "",
        "\\x",
        "\\x0aFF",
        "\\x 0a\n0b ",
        "\\x0",
        "\\xzz",
        "\\x1 2",
        "abc",
        "a\\\\b",
        "a\\101",
        "\\400",
        "a\\",
        "é",
    ),
    "varbit": ("", "101", "b101", "B1", "x5", "XfF", "12", "xg", "b", "x"),
    '"bit"': ("101", "b101", "x5", "1 ", "x"),
    '"char"': ("", "a", "ab", "é", "\\101", "\\303", "\\1", "\\400", "\\10a", "\\0001"),
    "name": ("", "a ", "x" * 63, "x" * 64, "é" * 32, "😀" * 16),
    "bpchar": ("", "a  ", " a"),
    "bpchar(3)": ("", "a", "abc", "abc  ", "éé"),
    "varchar(3)": ("", "a", "abc", "abc  ", "éé"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_constants_are_read_as_the_server_reads_them(server, name):
    """B26: the types' input functions; a length is that of a typed literal, which cuts blanks
    alone.
    """
    oid = server.oid(name.partition("(")[0])
    modifier = int(name[-2]) + 4 if name.endswith(")") else -1
    fitting = [text for text in INPUTS[name] if modifier < 0 or len(text.rstrip(" ")) <= modifier - 4]
    theirs = server.ask(f"{{0}}::{name}", [(text,) for text in fitting])
    ours = [error or show(oid, value) for value, error in (read(oid, text, modifier) for text in fitting)]
    assert dict(zip(fitting, ours, strict=True)) == dict(zip(fitting, theirs, strict=True))
