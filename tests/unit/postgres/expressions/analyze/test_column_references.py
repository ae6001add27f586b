"""What a name in a filter refers to (``transformColumnRef``)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.postgres.expressions.analyze import tree
from subscriber.postgres.expressions.analyze.column_references import Columns
from subscriber.postgres.expressions.parse import syntax
from tests.films import COLUMNS, INT4, TABLE, analyzed, refusal


@pytest.fixture
def columns(catalog) -> Columns:
    return Columns(catalog, TABLE, "cinema")


def ref(*parts: str | None) -> syntax.ColumnRef:
    return syntax.ColumnRef(0, parts)


@pytest.mark.parametrize(
    "parts", [("a",), ("films", "a"), ("public", "films", "a"), ("cinema", "public", "films", "a")]
)
def test_a_column_may_be_qualified_by_table_schema_and_database(columns, parts):
    assert columns.find(ref(*parts)) == tree.Var(INT4, 0, "a")


def test_the_name_of_the_table_is_its_row(columns):
    row = tree.Refused(2249, 0, "Row")
    assert columns.find(ref("films")) == row
    assert columns.find(ref("films", None)) == row


def test_a_system_column_has_a_type_and_is_refused_later(columns):
    assert columns.find(ref("ctid")) == tree.Refused(27, 0, "SystemColumn")
    assert columns.find(ref("films", "tableoid")) == tree.Refused(26, 0, "SystemColumn")


def test_a_column_hides_the_row_and_the_system_column_of_its_name(catalog):
    table = replace(TABLE, columns=(replace(COLUMNS[0], name="films"), replace(COLUMNS[0], name="ctid")))
    columns = Columns(catalog, table, "cinema")
    assert columns.find(ref("films")) == tree.Var(INT4, 0, "films")
    assert columns.find(ref("ctid")) == tree.Var(INT4, 0, "ctid")


def test_a_star_in_a_row_is_every_column(catalog):
    columns = Columns(catalog, replace(TABLE, columns=COLUMNS[:3]), "cinema")
    assert [one.name for one in columns.all_of(ref("films", None)) if isinstance(one, tree.Var)] == ["a", "b", "c"]


def test_a_function_of_the_row_is_its_column(columns):
    assert columns.projection("a", ref("films")) == tree.Var(INT4, 0, "a")
    assert columns.projection("nope", ref("films")) is None
    assert columns.projection("a", ref("b")) is None
    assert columns.projection("a", syntax.AConst(0, "integer", "1")) is None
    assert analyzed("a(films)") == analyzed("a")
    assert analyzed("(films).a") == analyzed("a")


@pytest.mark.parametrize(
    ("text", "sqlstate", "message"),
    [
        ("x = 1", "42703", 'column "x" does not exist'),
        ("films.x = 1", "42703", "column films.x does not exist"),
        ("other.a = 1", "42P01", 'missing FROM-clause entry for table "other"'),
        ("other.films.a = 1", "42P01", 'invalid reference to FROM-clause entry for table "films"'),
        (
            "nowhere.public.films.a = 1",
            "0A000",
            "cross-database references are not implemented: nowhere.public.films.a",
        ),
        (
            "x.nowhere.public.films.a = 1",
            "42601",
            "improper qualified name (too many dotted names): x.nowhere.public.films.a",
        ),
        ("(films).x = 1", "42703", "column films.x does not exist"),
        ("(a).x = 1", "42809", "column notation .x applied to type integer, which is not a composite type"),
        ("a[1] = 1", "42804", "cannot subscript type integer because it does not support subscripting"),
    ],
)
def test_the_error_of_a_name(text, sqlstate, message):
    error = refusal(text)
    assert (error.sqlstate, error.message) == (sqlstate, message)


def test_a_subscript_has_the_type_of_the_element_and_a_slice_that_of_the_array(columns):
    def subscripted(*bounds: syntax.Node | None) -> int:
        node = syntax.Indirection(0, ref("k"), (bounds,))
        found: tree.Expression = columns.indirection(node, columns.find)
        return found.type_oid

    assert subscripted(ref("a")) == INT4
    assert subscripted(ref("a"), None) == 1007


def test_a_column_of_a_type_that_nobody_knows_is_refused(catalog):
    unknown = replace(COLUMNS[0], name="u", type_oid=15000, type_name="mystery")
    table = replace(TABLE, columns=(unknown, replace(unknown, name="w", type_oid=17000)))
    columns = Columns(catalog, table, "cinema")
    with pytest.raises(Exception, match="columns of type mystery are not supported"):
        columns.find(ref("u"))
    with pytest.raises(Exception, match="invalid publication WHERE expression"):
        columns.find(ref("w"))
