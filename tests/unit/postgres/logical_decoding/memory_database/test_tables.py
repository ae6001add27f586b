"""Descriptions of tables, and what DDL makes of them."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.postgres.logical_decoding import memory_tables as tables
from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange, HistoricCatalog
from subscriber.postgres.logical_decoding.memory_tables import Column

EMPTY = HistoricCatalog()
T = tables.new_relation(EMPTY.tables, 5, "t", {"a": "integer", "b": "numeric(3,1)"}, primary_key=["a"])
CATALOG = EMPTY.apply(CatalogChange(relations=(T,)))


def described(relation):
    return [(column.number, column.name, column.type_name) for column in relation.columns]


def test_a_table_is_described_as_in_the_catalogs():
    assert described(T) == [(1, "a", "integer"), (2, "b", "numeric(3,1)")]
    assert (T.schema, T.name, T.oid, set(T.identity_columns)) == ("public", "t", 5, {"a"})


def test_a_column_has_the_collation_of_its_type():
    columns = {"a": "integer", "b": "text", "c": "name", "d": "character varying(3)[]"}
    made = tables.new_relation(EMPTY.tables, 5, "t", columns)
    assert [column.collation for column in made.columns] == [0, 100, 950, 100]


def test_a_generated_column_keeps_its_expression():
    column = Column("g", "integer", "stored", "a * 2")
    made = tables.new_relation(EMPTY.tables, 5, "t", [column])
    assert (made.columns[0].generated, made.columns[0].expression) == ("stored", "a * 2")


def test_a_number_is_never_used_again():
    dropped = tables.drop_column(T, "b")
    assert dropped.dropped == (2,)
    assert described(tables.add_column(EMPTY.tables, dropped, Column("c", "text"))) == [
        (1, "a", "integer"),
        (3, "c", "text"),
    ]


def test_a_key_is_dropped_with_its_column_and_renamed_with_it():
    assert tables.drop_column(T, "a").identity_columns == set()
    assert tables.rename_column(T, "a", "z").identity_columns == {"z"}


@pytest.mark.parametrize(
    ("identity", "columns", "names"),
    [("nothing", (), set()), ("full", (), {"a", "b"}), ("index", ("b",), {"b"}), ("default", (), {"a"})],
)
def test_the_replica_identity_is_altered(identity, columns, names):
    altered = tables.replica_identity(T, identity, columns, ["a"])
    assert altered.identity_columns == names
    assert altered.table.identity == identity


def test_a_column_name_that_is_in_use_is_refused():
    for alter in (
        lambda: tables.add_column(EMPTY.tables, T, Column("a", "text")),
        lambda: tables.rename_column(T, "b", "a"),
    ):
        with pytest.raises(UsageError, match='column "a" of relation "t" already exists') as caught:
            alter()
        assert caught.value.sqlstate == "42701"


def test_a_table_moves_to_another_schema():
    assert tables.renamed(T, "s.u").qualified_name == "s.u"


@pytest.mark.parametrize(
    ("wrong", "sqlstate"),
    [
        (lambda: tables.find(CATALOG, "missing"), "42P01"),
        (lambda: tables.new_relation(CATALOG.tables, 6, "t", {"a": "integer"}), "42P07"),
        (lambda: tables.new_relation(CATALOG.tables, 6, "u", {"a": "integer"}, primary_key=["b"]), "42703"),
        (lambda: tables.new_relation(CATALOG.tables, 6, "u", {"a": "nothing"}), "42704"),
        (lambda: tables.drop_column(T, "c"), "42703"),
        (lambda: tables.rename_column(T, "c", "d"), "42703"),
        (lambda: tables.replica_identity(T, "index", ["c"], []), "42703"),
    ],
)
def test_what_does_not_exist_is_postgresqls_error(wrong, sqlstate):
    with pytest.raises(UsageError) as caught:
        wrong()
    assert caught.value.sqlstate == sqlstate
    assert caught.value.hint
