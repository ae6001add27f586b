"""Whole expressions, beside the server's (rules B11, B15, B26): what is true, false or NULL, what
raises, and which row is the first to.

Random expressions of every kind of node are computed by ``SELECT``, which simplifies and stops as a
row filter does; that it does is what the last test is for. A failure shows the seed, and
``SEED`` repeats it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import psycopg
import pyarrow as pa
import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.check_filter import check_filter
from subscriber.postgres.expressions.evaluate.row_filter import CompiledFilter, compile_filter
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables
from tests.numeric_values import NUMBERS
from tests.random_expressions import COLUMNS, INT4, Expressions
from tests.random_seed import random_seed

pytestmark = pytest.mark.server

SEED: Final = random_seed()
ROWS: Final = 30
EXPRESSIONS: Final = 400

ARRAYS: Final = {
    "int4[]": ["{}", "{0}", "{1,2}", "{NULL,3}", "{{1,2},{3,-1}}", "[0:1]={7,100}"],
    "text[]": ["{}", "{a}", "{NSW,NULL}", "{b,ü}"],
}

_OIDS: Final = {"bool": 16, "int4": 23, "text": 25, "float8": 701, "numeric": 1700, "int4[]": 1007, "text[]": 1009}
TABLE: Final = PublisherTable(
    16384,
    "public",
    "sample",
    "table",
    tuple(
        PublisherColumn(name, number, _OIDS[kind], collation=950 if "text" in kind else 0)
        for number, (name, kind) in enumerate(COLUMNS.items(), start=1)
    ),
)
TABLES: Final = PublisherTables(180000, {TABLE.key: TABLE}, frozenset({950}))

_ANSWERS: Final = """
CREATE FUNCTION pg_temp.answers(expression text) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE answer text; answers text[]; row int;
BEGIN
    FOR row IN SELECT i FROM sample ORDER BY i LOOP
        BEGIN
            EXECUTE 'SELECT (' || expression || ')::text FROM sample WHERE i = ' || row INTO answer;
        EXCEPTION WHEN OTHERS THEN
            answer := 'ERROR ' || SQLSTATE || ' ' || SQLERRM;
        END;
        answers := answers || answer;
    END LOOP;
    RETURN answers;
END $$
"""


def sample_value(random: Random, type_name: str) -> str | None:
    if random.random() < 0.2:
        return None
    if type_name == "text":
        return random.choice(["", "a", "b", "NSW", "ü"])
    if type_name == "int4" and random.random() < 0.8:
        return str(random.choice([0, 1, 2, 3, -1, 7, 100]))
    if type_name in ARRAYS:
        return random.choice(ARRAYS[type_name])
    return NUMBERS[type_name](random)


@pytest.fixture(scope="module")
def connection(postgresql18) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgresql18.conninfo(), autocommit=True) as connection:
        declared = {"text": 'text COLLATE "C"', "text[]": 'text[] COLLATE "C"'}
        columns = ", ".join(f"{name} {declared.get(kind, kind)}" for name, kind in COLUMNS.items())
        connection.execute(f"CREATE TEMP TABLE sample (i int, {columns})")
        connection.execute(_ANSWERS)
        yield connection


def shown(values: pa.BooleanArray) -> list[str | None]:
    return [None if value is None else str(value).lower() for value in values.to_pylist()]


def error_text(error: RowFilterError) -> str:
    return f"ERROR {error.sqlstate} {error.message}"


def our_answers(node: tree.Expression, columns: dict[str, pa.Array], count: int) -> list[str | None]:
    """The answers for all rows at once; if a row raises an error, for each row separately, which
    must be the first error.
    """
    try:
        compiled = compile_filter(node)
    except RowFilterError as error:
        return [error_text(error)] * count
    failure = compiled.first_failure(columns, count)
    if failure is None:
        return shown(compiled.evaluate(columns, count))
    answers = [answer for row in range(count) for answer in one_answer(compiled, columns, row)]
    first = next(row for row, answer in enumerate(answers) if answer is not None and answer.startswith("ERROR"))
    assert failure[0] == first
    assert error_text(failure[1]) == answers[first]
    return answers


def one_answer(compiled: CompiledFilter, columns: dict[str, pa.Array], row: int) -> list[str | None]:
    try:
        return shown(compiled.evaluate({name: column.slice(row, 1) for name, column in columns.items()}, 1))
    except RowFilterError as error:
        return [error_text(error)]


def test_random_expressions_have_the_servers_values_and_errors(connection):
    """B11, B26: for trees that are created together with the SQL, and for trees that the analysis
    creates from it.
    """
    random = Random(SEED)
    connection.execute("TRUNCATE sample")
    for row in range(ROWS):
        values = [sample_value(random, kind) for kind in COLUMNS.values()]
        connection.execute(f"INSERT INTO sample VALUES (%s{', %s' * len(values)})", [row, *values])
    columns = {
        name: pa.array(
            [
                text
                for (text,) in connection.execute(
                    f"SELECT CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END FROM sample ORDER BY i"
                )
            ],
            pa.string(),
        )
        for name in COLUMNS
    }
    expressions = Expressions(random)
    outcomes: set[str | None] = set()
    analysed = 0
    for _ in range(EXPRESSIONS):
        sql, node = expressions.filter()
        row = connection.execute("SELECT pg_temp.answers(%s)", [sql]).fetchone()
        assert row is not None
        ours = our_answers(node, columns, ROWS)
        assert ours == row[0], f"SEED={SEED}: {sql}"
        with contextlib.suppress(NotSupportedError):  # text without a column has the collation of the database
            assert our_answers(check_filter(sql, TABLE, TABLES), columns, ROWS) == row[0], f"SEED={SEED}: {sql}"
            analysed += 1
        outcomes |= {answer and answer[:11] for answer in ours}
    assert outcomes >= {"true", "false", None, "ERROR 22012", "ERROR 22003", "ERROR 2202E"}
    assert analysed > EXPRESSIONS * 0.8


# What pgoutput itself does ------------------------------------------------------------------------

A: Final = tree.Var(INT4, 0, "a")
NULL_NUMBER: Final = tree.Const(INT4, 0, None)


def number(value: int) -> tree.Const:
    return tree.Const(INT4, 0, str(value))


def truth(value: bool) -> tree.Const:
    return tree.Const(tree.BOOL, 0, "t" if value else "f")


def call(name: str, left: tree.Expression, right: tree.Expression) -> tree.Call:
    result = INT4 if name == "div" else tree.BOOL
    return tree.Call(result, 0, f"int4{name}(int4,int4)", (left, right))


def both(*arguments: tree.Expression) -> tree.BoolExpr:
    return tree.BoolExpr(tree.BOOL, 0, "and", arguments)


def either(*arguments: tree.Expression) -> tree.BoolExpr:
    return tree.BoolExpr(tree.BOOL, 0, "or", arguments)


def case(condition: tree.Expression, result: tree.Expression, otherwise: tree.Expression) -> tree.CaseExpr:
    return tree.CaseExpr(tree.BOOL, 0, None, ((condition, result),), otherwise)


NEVER: Final = call("eq", call("div", number(1), number(0)), number(1))
PER_ROW: Final = call("gt", call("div", number(10), A), number(1))

FILTERS: Final = {
    "a <> 0 AND 10 / a > 1": both(call("ne", A, number(0)), PER_ROW),
    "10 / a > 1 AND a <> 0": both(PER_ROW, call("ne", A, number(0))),
    "10 / a > 1 AND false": both(PER_ROW, truth(False)),
    "a > 5 OR 10 / a > 1": either(call("gt", A, number(5)), PER_ROW),
    "a > 0 OR 1 / 0 = 1": either(call("gt", A, number(0)), NEVER),
    "true OR 1 / 0 = 1": either(truth(True), NEVER),
    "1 / 0 = 1 OR true": either(NEVER, truth(True)),
    "CASE WHEN false THEN 1 / 0 = 1 ELSE true END": case(truth(False), NEVER, truth(True)),
    "CASE WHEN a > 100 THEN 1 / 0 = 1 ELSE true END": case(call("gt", A, number(100)), NEVER, truth(True)),
    "CASE WHEN a = 0 THEN true ELSE 10 / a > 1 END": case(call("eq", A, number(0)), truth(True), PER_ROW),
    "COALESCE(a > 5, 1 / a = 0)": tree.CoalesceExpr(
        tree.BOOL, 0, (call("gt", A, number(5)), call("eq", call("div", number(1), A), number(0)))
    ),
    "10 / a = NULL": call("eq", call("div", number(10), A), NULL_NUMBER),
    "NULLIF(NULL, 10 / a) IS NULL": tree.NullTest(
        tree.BOOL,
        0,
        tree.NullIfExpr(INT4, 0, "int4eq(int4,int4)", (NULL_NUMBER, call("div", number(10), A))),
        is_null=True,
    ),
    "10 / a IN (5, 10)": tree.ScalarArrayOpExpr(
        tree.BOOL,
        0,
        "int4eq(int4,int4)",
        (call("div", number(10), A), tree.ArrayExpr(1007, 0, (number(5), number(10)))),
    ),
}
VALUES: Final = (0, 1, 2, 7, None)


def test_filters_that_raise_raise_for_the_rows_that_pgoutput_raises_for(publisher_database):
    """B11, B15: a constant part is computed before any row, and even where no row would need it;
    the rest is lazy.
    """
    execute = publisher_database.execute
    execute("SELECT pg_create_logical_replication_slot('raises', 'pgoutput')")
    places = [(sql, value) for sql in FILTERS for value in VALUES]
    for place, (sql, _) in enumerate(places):
        execute(f"CREATE TABLE t{place} (a int); CREATE PUBLICATION p{place} FOR TABLE t{place} WHERE ({sql})")
    for place, (_, value) in enumerate(places):
        execute(f"INSERT INTO t{place} VALUES ({'NULL' if value is None else value})")
    theirs, ours = {}, {}
    for place, (sql, value) in enumerate(places):
        try:
            messages = execute(
                "SELECT get_byte(data, 0) FROM pg_logical_slot_peek_binary_changes('raises', NULL, NULL,"
                f" 'proto_version', '1', 'publication_names', 'p{place}')"
            )
            theirs[sql, value] = "sent" if (ord("I"),) in messages else "dropped"
        except psycopg.Error as error:
            theirs[sql, value] = f"ERROR {error.sqlstate} {error.diag.message_primary}"
        (answer,) = our_answers(FILTERS[sql], {"a": pa.array([value], pa.int32())}, 1)
        ours[sql, value] = (
            answer if answer and answer.startswith("ERROR") else "sent" if answer == "true" else "dropped"
        )
    assert ours == theirs
    assert set(ours.values()) == {"sent", "dropped", "ERROR 22012 division by zero"}
