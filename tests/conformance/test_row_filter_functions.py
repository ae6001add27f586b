"""Functions of booleans, integers, floats and numeric, beside the server's own (rules B11, B25):
``f(a, b)`` over random rows.

Columns are evaluated at once, as a filter does it, and row by row where one of them raises. The
rows differ from run to run; a failure shows the seed, and ``SEED`` repeats it. Operators
and casts are functions, so all of them are here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest

from subscriber.base.errors import DataException
from subscriber.postgres.expressions.evaluate.calls import function_for, of_type
from subscriber.postgres.expressions.evaluate.row_values import Value, filtered, listed, read_column
from subscriber.postgres.expressions.functions import FUNCTIONS
from subscriber.postgres.types.registry import family_of, form_of
from tests.numeric_values import NUMBERS
from tests.random_seed import random_seed

pytestmark = pytest.mark.server

SEED: Final = random_seed()
ROWS: Final = 100
RESULTS: Final = NUMBERS.keys()
"""Types of the results that are compared here; functions with other results are in the tests of
those types.
"""

_ANSWER: Final = """
CREATE OR REPLACE FUNCTION pg_temp.answer(expression text, arguments text[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE answer text;
BEGIN
    EXECUTE 'SELECT CASE WHEN a IS NOT NULL THEN format(''%s'', a) END FROM (SELECT ' || expression || ' AS a OFFSET 0) AS _'
       INTO answer USING arguments;
    RETURN answer;
EXCEPTION WHEN OTHERS THEN
    RETURN 'ERROR ' || SQLSTATE || ' ' || SQLERRM;
END $$
"""
_CATALOG: Final = """
SELECT proname || '(' || coalesce((SELECT string_agg(typname, ',' ORDER BY place)
           FROM unnest(proargtypes) WITH ORDINALITY AS argument(type, place) JOIN pg_type ON pg_type.oid = argument.type), '') || ')',
       (SELECT typname FROM pg_type WHERE oid = prorettype), prorettype::int8, proisstrict, provolatile
  FROM pg_proc WHERE oid < 16384
"""
_ANSWERS: Final = """
SELECT pg_temp.answer(%s, ARRAY(SELECT jsonb_array_elements_text(arguments))),
       ARRAY(SELECT pg_temp.answer('($1)[1]::' || type, ARRAY[argument])
               FROM ROWS FROM (jsonb_array_elements_text(arguments), unnest(%s::text[])) WITH ORDINALITY AS _(argument, type, place)
              ORDER BY place)
  FROM jsonb_array_elements(%s) WITH ORDINALITY AS _(arguments, place) ORDER BY place
"""


def types_of(signature: str) -> list[str]:
    inside = signature.partition("(")[2].rstrip(")")
    return inside.split(",") if inside else []


SIGNATURES: Final = sorted(signature for signature in FUNCTIONS if NUMBERS.keys() >= set(types_of(signature)))


class Catalog:
    """The functions and types of a server, and their answers."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.execute(_ANSWER)
        rows = connection.execute(_CATALOG).fetchall()
        self.functions = {name: (type_name, oid) for name, type_name, oid, *_ in rows}
        self.facts = {name: (is_strict, volatility) for name, _, _, is_strict, volatility in rows}
        self.oids: dict[str, int] = dict(connection.execute("SELECT typname, oid::int8 FROM pg_type").fetchall())

    def answers(self, signature: str, rows: list[list[str | None]]) -> list[tuple[str | None, list[str | None]]]:
        """Results, and the arguments as the server prints them."""
        types = types_of(signature)
        arguments = ", ".join(f"($1)[{place + 1}]::{name}" for place, name in enumerate(types))
        call = f'pg_catalog."{signature.partition("(")[0]}"({arguments})'
        found: list[tuple[str | None, list[str | None]]] = self.connection.execute(
            _ANSWERS, [call, types, json.dumps(rows)]
        ).fetchall()
        return found


@pytest.fixture(scope="module")
def catalog(postgresql18) -> Iterator[Catalog]:
    with psycopg.connect(postgresql18.conninfo(), autocommit=True) as connection:
        yield Catalog(connection)


@pytest.fixture
def any_catalog(postgresql) -> Iterator[Catalog]:
    """Of each version in turn."""
    with psycopg.connect(postgresql.conninfo(), autocommit=True) as connection:
        yield Catalog(connection)


def powers(random: Random) -> list[str | None]:
    """A base and an exponent whose power has some digits, but not a hundred thousand."""
    base = random.choice(
        [
            "0",
            "1",
            "-1",
            "NaN",
            "Infinity",
            "-Infinity",
            "0.5",
            "-2.5",
            "1.0001",
            "9999.9999",
            "1e-20",
            "0.90",
            "1.1",
            "123456789.123",
        ]
    )
    exponent = random.choice(
        [
            "0",
            "1",
            "2",
            "-1",
            "0.5",
            "3.0",
            "Infinity",
            "-Infinity",
            "NaN",
            f"{random.uniform(-30, 30):.{random.randint(0, 9)}f}",
        ]
    )
    return [base if random.random() < 0.6 else f"{random.uniform(0, 200):.{random.randint(0, 30)}f}", exponent]


def is_error(answer: str | None) -> bool:
    return answer is not None and answer.startswith("ERROR")


def without_values(answer: str | None) -> str | None:
    """The server's error without the value that it shows, because the errors of this program never
    show values.
    """
    return re.sub(r' "[^"]*" is ', " value ", answer) if answer is not None and is_error(answer) else answer


def our_answers(catalog: Catalog, signature: str, columns: Sequence[Value], count: int) -> list[str | None]:
    result = catalog.functions[signature][1]
    form = form_of(result)
    assert form is not None
    arguments = [of_type(catalog.oids[name]) for name in types_of(signature)]
    apply, raises = function_for(signature, arguments, result, catalog.connection.info.server_version)

    def shown(values: Sequence[Value], rows: int) -> list[str | None]:
        return [None if value is None else form.to_text(value) for value in listed(apply(values, rows), rows)]

    try:
        return shown(columns, count)
    except DataException:
        assert raises, f"{signature} is said not to raise"
    answers = []
    for row in range(count):
        one = pa.array([place == row for place in range(count)])
        try:
            answers += shown([filtered(column, one) for column in columns], 1)
        except DataException as error:
            answers.append(f"ERROR {error.sqlstate} {error.message}")
    return answers


def test_functions_give_the_servers_results_and_errors(any_catalog):
    """B11: to the last digit and bit, with the server's SQLSTATE and message, from decoded columns
    and from text.
    """
    compared, differences = 0, []
    for signature in SIGNATURES:
        if signature not in any_catalog.functions or any_catalog.functions[signature][0] not in RESULTS:
            continue
        random = Random(f"{SEED} {signature}")
        types = types_of(signature)
        oids = [any_catalog.oids[name] for name in types]
        rows = [[None if random.random() < 0.03 else NUMBERS[name](random) for name in types] for _ in range(ROWS)]
        if "numeric_power" in signature or signature.startswith(("pow(num", "power(num")):
            rows = [powers(random) for _ in rows]  # random texts of other types seldom fit
        # A random text may not be valid for the type; the others are values that a column can have.
        answers = [row for row in any_catalog.answers(signature, rows) if not any(map(is_error, row[1]))]
        texts = [pa.array([given[place] for _, given in answers], pa.string()) for place in range(len(types))]
        decoded = [family_of(oid).decode_text(text.cast(pa.binary())) for oid, text in zip(oids, texts, strict=True)]
        for columns in (texts, decoded):
            values = [read_column(column, oid) for column, oid in zip(columns, oids, strict=True)]
            ours = our_answers(any_catalog, signature, values, len(answers))
            compared += len(ours)
            differences += [
                f"{signature} {given}: {theirs} is the server's, {mine} is ours"
                for (theirs, given), mine in zip(answers, ours, strict=True)
                if without_values(theirs) != mine
            ]
    assert differences == [], f"SEED={SEED}"
    assert compared > 20_000


def test_what_is_registered_is_an_immutable_function_of_a_server_and_as_strict_as_there(catalog, postgresql15):
    """B25, and ``simplify`` relies on strictness. A function with other arguments than it had in 15
    is there under both signatures.
    """
    registered = {signature: (one.strict, "i") for signature, one in FUNCTIONS.items()}
    with psycopg.connect(postgresql15.conninfo(), autocommit=True) as connection:
        known = Catalog(connection).facts | catalog.facts
    assert registered == {signature: known.get(signature) for signature in registered}


CONSTANTS: Final = {
    "bool": (
        "t", "true", "TRUE", " tr ", "tru", "y", "yes", "ye", "on", "1", "f", "fal", "n", "no", "of", "off", "0", "o", "", "tt", "10",
        "truee", "\tf\n", "oN",
    ),
    "int2": ("1", " 1 ", "+1", "-32768", "32768", "-32769", "0x7fff", "0x8000", "1_000", "1__0", "_1", "1_", "", "1.0", "a", "0o17", "0b101", "99999x"),
    "int4": (
        "2147483647", "-2147483648", "2147483648", "0x7FFFFFFF", "-0x80000000", "0xffffffff", "0x", "0b2", "0o8", "1e3", "--1", "- 1",
        "+0b1", "0x_1f", "1 2", "99999999999999999999", "\v7\f", "00012",
    ),
    "int8": ("9223372036854775807", "-9223372036854775808", "9223372036854775808", "0x7FFFFFFFFFFFFFFF", "1_2_3", "abc"),
    "oid": ("0", "4294967295", "4294967296", "-1", "-2147483648", " 5", "x"),
    "float4": ("1.5", "1e39", "1e-46", "nan", "INF", "-infinity", "+Infinity", ".5", "5.", ".", "1e", "1e+5", "16777217", "1.17549435e-38", "infin"),
    "float8": (
        "1.5", " -1.5e3 ", "1e309", "-1e309", "1e-324", "5e-324", "0e-400", "-0", "NaN", "+inf", "-inf", "1_0", "1d", "", "0.1e1", "1e15",
        "123456789012345678", "1e-5", "0.0001", "0.00001", "1e309x", "0e309x",
    ),
    "numeric": (
        "1.50", " +1.5 ", "-0.0", "-0", "1e5", "1.5e-5", "1.5E+2", ".5", "5.", ".", "", "e5", "1e", "nan", "NaN ", "inf", "-Infinity", "+inf",
        "0x1F", "-0b11", "0o7", "1_000.5_5", "1_", "1._5", "1e1_0", "1e131071", "1e131072", "1e-16383", "1e-16384", "1.0e-20000", "1e999999999",
        "infinit", "--1", "1 1", "00.10", "0e131073", "0e200000", "0e300000", "0e-16384", "1e131072x", "0e1073741823",
        "0e1073741824", "0.00e5", "-0.0e300000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_read_as_the_server_reads_them(catalog, name):
    """B26: the type's input function, its errors included; the filter is no row, so they may show
    the text.
    """
    form = form_of(catalog.oids[name])
    assert form is not None

    def ours(text: str) -> str:
        try:
            return form.to_text(form.from_text(text, -1))
        except DataException as error:
            return f"ERROR {error.sqlstate} {error.quoting or error.message}"

    query = "SELECT pg_temp.answer('($1)[1]::' || %s, ARRAY[text]) FROM unnest(%s::text[]) WITH ORDINALITY AS _(text, place) ORDER BY place"
    theirs = [answer for (answer,) in catalog.connection.execute(query, [name, list(CONSTANTS[name])])]
    assert dict(zip(CONSTANTS[name], map(ours, CONSTANTS[name]), strict=True)) == dict(
        zip(CONSTANTS[name], theirs, strict=True)
    )


@pytest.mark.parametrize(
    ("precision", "scale"), [(5, 2), (3, 3), (3, 5), (2, -3), (1000, 1000), (1000, -1000), (38, 0), (1, 0)]
)
def test_numbers_are_made_to_fit_their_precision_and_scale_as_the_server_does_it(catalog, precision, scale):
    """B26: ``numeric(p, s)`` is the function ``numeric(numeric, int4)``, and the detail says what
    fits.
    """
    random = Random(f"{SEED} {precision} {scale}")
    values = [value for value in (NUMBERS["numeric"](random) for _ in range(60)) if "e" not in value]
    query = (
        f"SELECT pg_temp.answer('($1)[1]::numeric({precision}, {scale})', ARRAY[text])"
        " FROM unnest(%s::text[]) WITH ORDINALITY AS _(text, place) ORDER BY place"
    )
    theirs = [answer for (answer,) in catalog.connection.execute(query, [values])]
    form = form_of(1700)
    assert form is not None
    modifier = (precision << 16 | scale & 0x7FF) + 4
    ours, details = [], set()
    for value in values:
        try:
            ours.append(form.to_text(form.from_text(value, modifier)))
        except DataException as error:
            ours.append(f"ERROR {error.sqlstate} {error.message}")
            details.add(error.detail)
    assert ours == theirs, f"SEED={SEED}"
    limit = "1" if precision == scale else f"10^{precision - scale}"
    assert details <= {
        f"A field with precision {precision}, scale {scale} must round to an absolute value less than {limit}.",
        f"A field with precision {precision}, scale {scale} cannot hold an infinite value.",
    }
