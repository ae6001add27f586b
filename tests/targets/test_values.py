"""The role ``values``: a value comes back as it was, or it is refused; NULL is NULL."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from subscriber.base.errors import SubscriberError, UnsupportedValue
from subscriber.postgres.types.oids import BUILT_IN_TYPES, type_name
from subscriber.targets import Target, TargetColumn
from subscriber.testing.type_edges import EDGES
from tests.targets.tables import OIDS, created, decoded, insert, shape_of, stored

_USUAL = set(EDGES) - {"interval", "json", "jsonb", "inet", "integer[]", "text[]"}


@pytest.mark.parametrize("kind", EDGES)
def test_a_value_comes_back_as_it_was_or_is_refused(target, kind):
    shape = shape_of({"number": "integer", "value": kind}, ["number"])
    table = created(target, shape)
    column, type_oid = table.column("value"), shape.columns[1].type_oid
    assert column is not None
    target.values.check_column(type_oid, column)
    refused = {text: refusal(target, type_oid, column, text) for text in EDGES[kind]}
    kept = [(str(number), text) for number, text in enumerate(EDGES[kind]) if refused[text] is None]
    with target.begin() as connection:
        insert(target, connection, shape, *kept)
    assert stored(target, shape) == sorted(kept, key=repr)
    assert kept
    for text, error in refused.items():
        if error is not None:
            assert (error.column, error.sqlstate[:2]) == ("value", "22")
            assert text not in error.report()


def refusal(target: Target, type_oid: int, column: TargetColumn, text: str) -> UnsupportedValue | None:
    """Why a value is not bound; None where it is."""
    try:
        target.values.bind_values(type_oid, column, decoded(target, type_oid, [text]))
    except UnsupportedValue as error:
        return error
    return None


@pytest.mark.parametrize("kind", EDGES)
def test_the_mask_is_true_for_exactly_the_values_that_are_not_bound(target, kind):
    """refuse_not_guess: what the option unrepresentable_values replaces, and nothing else"""
    shape = shape_of({"number": "integer", "value": kind}, ["number"])
    column, type_oid = created(target, shape).columns[1], shape.columns[1].type_oid
    texts = [*EDGES[kind], None, *EDGES[kind]]
    mask = target.values.unrepresentable_values(type_oid, column, decoded(target, type_oid, texts))
    assert mask.to_pylist() == [
        text is not None and refusal(target, type_oid, column, text) is not None for text in texts
    ]
    nothing = target.values.unrepresentable_values(type_oid, column, decoded(target, type_oid, []))
    assert (len(nothing), nothing.type) == (0, mask.type)


_NARROW = {
    "smallint": ("integer", ["32767", "32768", "-32769"]),
    "integer": ("bigint", ["2147483647", "2147483648", "-2147483649"]),
    "numeric(5,2)": ("numeric", ["999.99", "1000", "-1000.5", "0.5"]),
    "character varying(3)": ("text", ["abc", "abc ", "abcd", "äöü", "äöüß"]),
}


@pytest.mark.parametrize("declared", _NARROW)
def test_what_the_database_refuses_because_of_the_columns_type_is_in_the_mask(target, declared):
    """The values of a wider type of the publisher, by what happens when they are written"""
    kind, texts = _NARROW[declared]
    shape = shape_of({"number": "integer", "value": kind}, ["number"])
    column = created(target, shape_of({"number": "integer", "value": declared}, ["number"])).columns[1]
    type_oid = shape.columns[1].type_oid
    mask = target.values.unrepresentable_values(type_oid, column, decoded(target, type_oid, texts)).to_pylist()
    written = []
    for number, text in enumerate(texts):
        try:
            with target.begin() as connection:
                insert(target, connection, shape, (str(number), text))
        except SubscriberError:
            written.append(False)
        else:
            written.append(True)
    assert [not refused for refused in mask] == written


_MODIFIERS = {"numeric(10,2)": (10 << 16 | 2) + 4, "character varying(20)": 20 + 4}


@pytest.mark.parametrize("kind", EDGES)
def test_no_value_is_refused_that_its_column_accepts(target, kind):
    """fast_equals_exact: such values need not be written if later changes overwrite them."""
    shape = shape_of({"number": "integer", "value": kind}, ["number"])
    column, type_oid = created(target, shape).columns[1], shape.columns[1].type_oid
    modifier = _MODIFIERS.get(kind, -1)

    def accepts(text: str, modifier: int) -> bool:
        found: bool = target.values.accepts(type_oid, modifier, column, decoded(target, type_oid, [text]))
        return found

    accepted = [text for text in EDGES[kind] if accepts(text, modifier)]
    assert [text for text in accepted if refusal(target, type_oid, column, text) is not None] == []
    with target.begin() as connection:
        insert(target, connection, shape, *((str(number), text) for number, text in enumerate(accepted)))
    if target.capabilities.database in ("SQLite", "Turso", "DuckDB", "PostgreSQL") and kind in _USUAL:
        assert len(accepted) >= len(EDGES[kind]) - 1, "all but NaN in a DECIMAL"
    if target.capabilities.database in ("MariaDB", "OceanBase seekdb") and kind in _USUAL - {"time without time zone"}:
        assert accepted, "the finite ones, and ASCII"
    if kind in _MODIFIERS and target.capabilities.database in ("SQLite", "Turso", "PostgreSQL"):
        assert not any(accepts(text, modifier + 1) for text in EDGES[kind]), "the publisher's values may be longer"


def test_null_is_null_whatever_the_type(target):
    """absence_is_typed"""
    types = list(EDGES)
    shape = shape_of({"number": "integer"} | {f"c{at}": kind for at, kind in enumerate(types)}, ["number"])
    created(target, shape)
    row = ("1", *[None] * len(types))
    with target.begin() as connection:
        insert(target, connection, shape, row)
    assert stored(target, shape) == [row]


def test_an_empty_text_is_not_null(target):
    shape = shape_of({"a": "text"})
    created(target, shape)
    with target.begin() as connection:
        insert(target, connection, shape, ("",), (None,))
    assert stored(target, shape) == [("",), (None,)]


@pytest.mark.parametrize("key", [False, True], ids=["column", "key"])
def test_what_is_declared_holds_every_type(target, key):
    for type_oid, name in [(oid, type_name(oid)) for oid in sorted(BUILT_IN_TYPES)] + [(99_999, "mood")]:
        declared = target.ddl.column_type(type_oid, name, key=key)
        target.values.check_column(type_oid, TargetColumn("c", declared, target.ddl.storage(declared)))


def test_a_query_shows_its_values_as_text(target):
    shape = shape_of({"a": "integer", "b": "text"})
    table = created(target, shape)
    with target.begin() as connection:
        insert(target, connection, shape, ("7", "x"), (None, None))
        clause = table.clause()
        query = sa.select(clause.c.a, clause.c.b).order_by(clause.c.a.is_(None))
        assert target.read_result(connection.execute(query)).rows == [("7", "x"), (None, None)]


def test_only_columns_of_postgresqls_types_refuse_a_binary_form(target):
    """C5, D7"""
    column = created(target, shape_of({"a": "integer"})).column("a")
    refused = target.values.refused_binary(OIDS["bigint"], column, 1)
    assert (refused is not None) is target.capabilities.postgresql_types
    assert target.values.refused_binary(OIDS["integer"], column, 1) is None
