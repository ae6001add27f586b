"""Values for PostgreSQL's columns: the text that the column's input function reads."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from subscriber.base.errors import UnsupportedValue
from subscriber.postgres.types.equality import EXACT, NONE
from subscriber.targets import LeafRouting, TargetColumn, TargetTable
from subscriber.targets.base.loading import copy_data
from subscriber.targets.postgresql.catalog import PostgreSQLColumn, PostgreSQLTable
from subscriber.targets.postgresql.values import PostgreSQLValues, as_postgresql_text, refused_binary
from subscriber.targets.postgresql.writing import PostgreSQLMatching, row_array

COLUMN_VALUES = PostgreSQLValues()
COLUMN = PostgreSQLColumn("c", "text", "text")


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array([True, False, None]), ["t", "f", None]),
        (pa.array([b"\0\xff", b"", None]), ["\\x00ff", "\\x", None]),
        (pa.array([-(2**63), None]), ["-9223372036854775808", None]),
        (pa.array([0.1, 5e-324, None]), ["0.1", "5e-324", None]),
        (pa.array([0.1, None], pa.float32()), ["0.1", None]),
        (pa.array(["1.50", "", "NULL", None]), ["1.50", "", "NULL", None]),
        (pa.array([], pa.int32()), []),
    ],
    ids=["boolean", "bytea", "bigint", "double precision", "real", "text", "empty"],
)
def test_a_value_is_bound_as_postgresqls_text(values, texts):
    """C5, absence_is_typed"""
    assert as_postgresql_text(values).to_pylist() == texts
    assert COLUMN_VALUES.bind_values(25, COLUMN, values) == texts


def test_floats_that_are_not_finite_are_texts_that_the_input_function_reads():
    """The input function ignores case."""
    texts = as_postgresql_text(pa.array([math.nan, math.inf, -math.inf])).to_pylist()
    assert [text.lower() for text in texts] == ["nan", "inf", "-inf"]


@pytest.mark.parametrize("storage", ["character varying", "character"])
def test_a_text_that_is_too_long_names_its_column(storage):
    """The server's error would not name it. Blanks at the end do not count."""
    column = PostgreSQLColumn("c", f"{storage}(3)", storage)
    assert COLUMN_VALUES.bind_values(25, column, pa.array(["one  ", "éèê", None])) == ["one  ", "éèê", None]
    with pytest.raises(UnsupportedValue) as raised:
        COLUMN_VALUES.bind_values(25, column, pa.array(["four"]))
    assert (raised.value.sqlstate, raised.value.column) == ("22001", "c")
    assert raised.value.message == f"value too long for type {storage}(3)"


def test_every_column_is_accepted():
    """C5: its input function decides."""
    COLUMN_VALUES.check_column(25, PostgreSQLColumn("c", "integer", "integer"))


@pytest.mark.parametrize("declared", ["numeric(4,2)", "numeric(2,5)", "numeric(38,0)"])
def test_nan_fits_every_numeric_and_an_infinity_fits_none_that_has_a_precision(declared):
    column = PostgreSQLColumn("c", declared, "numeric")
    mask = COLUMN_VALUES.unrepresentable_values(1700, column, pa.array(["NaN", "Infinity", "0", None]))
    assert mask.to_pylist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("column", "is_refused"),
    [
        (PostgreSQLColumn("c", "integer", "integer", binary_form=23), True),
        (PostgreSQLColumn("c", "bigint", "bigint", binary_form=20), False),
        (TargetColumn("c", "integer", "integer"), False),
    ],
)
def test_a_value_in_binary_form_needs_a_column_that_reads_it(column, is_refused):
    """C5, D7"""
    assert (COLUMN_VALUES.refused_binary(20, column, 1) is not None) is is_refused


# Values in binary form. tests/conformance/test_binary_forms.py asks the servers.


def column(declared: str, form: int | None) -> PostgreSQLColumn:
    return PostgreSQLColumn("c", declared, declared, binary_form=form)


@pytest.mark.parametrize(
    ("type_oid", "declared", "form"),
    [
        (23, "integer", 23),
        (25, "character varying", 1043),
        (25, "mood", 25),
        (1184, "timestamp without time zone", 1114),
        (23, "bigint", None),
        (99_999, "integer", 23),
    ],
    ids=["the same type", "another text", "an enum", "a moment", "unknown", "sent as text"],
)
def test_a_column_that_reads_the_form_accepts_the_value(type_oid, declared, form):
    """C5, D7"""
    assert refused_binary(type_oid, column(declared, form), 1) is None


@pytest.mark.parametrize(
    ("type_oid", "declared", "form", "sqlstate"),
    [(23, "bigint", 20, "08P01"), (20, "integer", 23, "22P03"), (23, "thing", 0, "42883"), (1007, "bigint[]", 1016, "42804")],
    ids=["too few bytes", "too many bytes", "no receive function", "another element"],
)  # fmt: skip
def test_a_column_that_does_not_read_the_form_has_postgresqls_error(type_oid, declared, form, sqlstate):
    """C5, D7"""
    error = refused_binary(type_oid, column(declared, form), 2)
    assert error is not None
    assert (error.sqlstate, error.column) == (sqlstate, "c")
    assert f"of type {declared} does not read" in str(error.detail)
    assert "binary = false" in str(error.hint)


# The conditions that find a row, as PostgreSQL's SQL.


MATCHING = PostgreSQLMatching()
TEXT = PostgreSQLColumn("a", "text", "text")
ROUNDED = PostgreSQLColumn("a", "numeric(5,2)", "numeric", compared_as="numeric(5,2)")
CITEXT = PostgreSQLColumn("a", "ext.citext", "ext.citext", compared_as="ext.citext", own_operator="ext.=")
ODD = PostgreSQLColumn("a", '"100%"', '"100%"', compared_as='"100%"')
VALUE = sa.literal("x")


def sql(statement: sa.ClauseElement) -> str:
    compiled = statement.compile(dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True})
    return " ".join(str(compiled).split())


def table(column: TargetColumn = TEXT, kind="table", routing=None) -> PostgreSQLTable:
    return PostgreSQLTable("public", "t", (column,), ("a",), kind, routing=routing)


def clause(column: TargetColumn) -> sa.ColumnElement[str]:
    return table(column).clause().c.a


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (TEXT, "public.t.a = 'x'"),
        (TargetColumn("a", "text", "text"), "public.t.a = 'x'"),
        (ROUNDED, "public.t.a = CAST('x' AS numeric(5,2))"),
        (CITEXT, "public.t.a OPERATOR(ext.=) CAST('x' AS ext.citext)"),
        (ODD, "public.t.a = CAST('x' AS \"100%%\")"),
    ],
    ids=["text", "no column of PostgreSQL", "rounded", "own operator", "percent sign"],
)
def test_a_key_is_compared_by_the_operator_of_its_type(column, condition):
    """C8, C23: the value is rounded as the column would store it. The operator of an extension is
    written with its schema, because the search_path is empty. The driver reads %% as %.
    """
    assert sql(MATCHING.equals(column, clause(column), VALUE)) == condition
    assert sql(MATCHING.finds(column, clause(column), VALUE)) == condition


@pytest.mark.parametrize(
    ("column", "condition"),
    [
        (TEXT, "public.t.a IS NOT DISTINCT FROM 'x'"),
        (ROUNDED, "public.t.a IS NOT DISTINCT FROM CAST('x' AS numeric(5,2))"),
        (
            CITEXT,
            "CAST(row(CAST(public.t.a AS ext.citext)) AS record) = CAST(row(CAST('x' AS ext.citext)) AS record)",
        ),
    ],
    ids=["text", "rounded", "own operator"],
)
def test_in_a_whole_row_null_equals_null(column, condition):
    """C14: records are compared by the equality of their types, in any schema."""
    assert sql(MATCHING.is_same(column, clause(column), VALUE)) == condition


@pytest.mark.parametrize(
    ("storage", "equality"),
    [("text", EXACT), ("numeric", EXACT), ("jsonb", EXACT), ("json", NONE), ("xml", NONE), ("point", NONE), ("mood", EXACT)],
)  # fmt: skip
def test_the_equality_is_that_of_the_columns_type(storage, equality):
    """C17: the publisher's type does not matter."""
    assert MATCHING.equality(114, PostgreSQLColumn("a", storage, storage)) == equality


def test_every_column_that_was_sent_is_in_set():
    """C23: a trigger with UPDATE OF a key column fires."""
    assert not MATCHING.found_as_written(25, table(), TEXT)


@pytest.mark.parametrize(
    ("kind", "only"), [("table", "ONLY public.t"), ("partitioned table", "public.t")], ids=["table", "partitioned"]
)
def test_a_statement_affects_no_tables_that_inherit(kind, only):
    of = table(kind=kind)
    t = of.clause()
    assert sql(MATCHING.own_rows(of, sa.delete(t), t)) == f"DELETE FROM {only}"
    assert sql(MATCHING.own_rows(of, sa.update(t).values(a=VALUE), t)) == f"UPDATE {only} SET a='x'"
    assert sql(MATCHING.own_rows(of, sa.select(t.c.a), t)) == f"SELECT public.t.a FROM {only}"


def test_a_row_is_looked_for_in_its_partition_if_only_partitions_have_keys():
    """C26"""
    routing = LeafRouting("tableoid", "CASE WHEN true THEN 1 END", ("a",))
    assert MATCHING.routing(table(kind="partitioned table", routing=routing)) is routing
    assert MATCHING.routing(table()) is None
    assert MATCHING.routing(TargetTable("public", "t", (), None)) is None


# Rows as texts. tests/conformance/test_bulk_postgresql.py has a server read them.


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, r"\N"),
        ("", ""),
        ("x", "x"),
        (r"\N", r"\\N"),
        (r"\.", r"\\."),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\\\t", r"\\\t"),
        ('é "', 'é "'),
    ],
)
def test_a_value_of_copy_is_escaped(value, written):
    """absence_is_typed; https://www.postgresql.org/docs/current/sql-copy.html"""
    assert copy_data([texts("1", "2"), texts("other", value)]) == f"1\tother\n2\t{written}\n".encode()
    assert copy_data([texts(value)]) == f"{written}\n".encode()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, ""),
        ("", r"\"\""),
        ("x", "x"),
        (" x ", " x "),
        ("a,b", r"\"a,b\""),
        ("(", r"\"(\""),
        (")", r"\")\""),
        ('"', r"\"\\\"\""),
        ("\\", r"\"\\\\\""),
        ("NULL", "NULL"),
        ("{}", "{}"),
    ],
)
def test_a_value_of_a_row_is_quoted_if_it_must_be(value, written):
    """absence_is_typed; https://www.postgresql.org/docs/current/rowtypes.html"""
    assert row_array([texts("1"), texts(value), None]) == f'{{"(1,{written},)"}}'


def test_all_values_of_a_column_are_quoted_if_one_must_be_but_null_is_not():
    assert row_array([texts("a", None, ","), None]) == r'{"(\"a\",)","(,)","(\",\",)"}'
    assert row_array([texts("1", "2")]) == '{"(1)","(2)"}'
