"""Row filters and tuples of pgoutput."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import NotSupportedError, RowFilterError
from subscriber.postgres.logical_decoding import Action, Datum, HeapTuple, RelationData, heap_tuple
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog
from subscriber.postgres.logical_decoding.plugins.pgoutput_relations import (
    RelationSyncEntry,
    RowChange,
    row_change,
    row_message,
)
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.messages import NULL, UNCHANGED, BinaryValue, TextValue
from tests.publications import python_filter, table

T = RelationData(table("public.t", {"a": "int4", "b": "text"}, key=["a"]))
FULL = RelationData(table("public.t", {"a": "int4", "b": "text"}, identity="full"))
ABOVE_10 = python_filter(["a"], lambda row: None if row["a"] is None else row["a"] > 10)
SHORT = python_filter(["b"], lambda row: len(row["b"]) < 5)


def row(*texts: str | m.Absence | None) -> HeapTuple:
    values = [NULL if one is None else one if isinstance(one, m.Absence) else Datum(one.encode()) for one in texts]
    return heap_tuple(values)


def entry(relation: RelationData = T, **fields) -> RelationSyncEntry:
    return RelationSyncEntry(relation, relation, frozenset({"insert", "update", "delete"}), **fields)


def filtered(action: Action, old: HeapTuple | None, new: HeapTuple | None, row_filter=ABOVE_10) -> RowChange | None:
    filters = dict.fromkeys(("insert", "update", "delete"), row_filter)
    return row_change(action, old, new, entry(filters=filters))


INSERT, UPDATE, DELETE = Action.INSERT, Action.UPDATE, Action.DELETE


@pytest.mark.parametrize(
    ("action", "old", "new", "sent"),
    [
        (INSERT, None, row("11", "x"), INSERT),
        (INSERT, None, row("1", "x"), None),
        (INSERT, None, row(None, "x"), None),
        (DELETE, row("11", None), None, DELETE),
        (DELETE, row("1", None), None, None),
        (UPDATE, None, row("11", "x"), UPDATE),
        (UPDATE, None, row("1", "x"), None),
        (UPDATE, row("1", None), row("2", "x"), None),
        (UPDATE, row("1", None), row("12", "x"), INSERT),
        (UPDATE, row("11", None), row("2", "x"), DELETE),
        (UPDATE, row("11", None), row("12", "x"), UPDATE),
        (UPDATE, row(None, None), row("12", "x"), INSERT),
    ],
)
def test_a_filter_turns_an_update_into_what_the_client_must_do(action, old, new, sent):
    """B11, B15-B17."""
    found = filtered(action, old, new)
    assert (None if found is None else found.action) == sent


def test_each_operation_has_its_own_filter():
    """B10: an UPDATE is judged by the filter for updates, whatever is sent for it."""
    only_deletes = entry(filters={"delete": ABOVE_10})
    assert row_change(INSERT, None, row("1", "x"), only_deletes) is not None
    assert row_change(UPDATE, row("1", None), row("2", "x"), only_deletes) is not None
    assert row_change(DELETE, row("1", None), None, only_deletes) is None


def test_an_insert_made_of_an_update_borrows_unchanged_values_of_the_old_row():
    """B17, B18."""
    found = filtered(UPDATE, row("1", "long"), row("12", UNCHANGED))
    assert found == RowChange(INSERT, None, row("12", "long").values)
    found = filtered(UPDATE, row("1", None), row("12", UNCHANGED))
    assert found == RowChange(INSERT, None, row("12", UNCHANGED).values)


def test_an_update_that_stays_one_keeps_its_unchanged_markers():
    """B17."""
    found = filtered(UPDATE, row("11", "long"), row("12", UNCHANGED))
    assert found == RowChange(UPDATE, row("11", "long").values, row("12", UNCHANGED).values)


def test_a_filter_sees_a_borrowed_value():
    """B17."""
    assert filtered(UPDATE, row("1", "long text"), row("2", UNCHANGED), SHORT) is None
    found = filtered(UPDATE, row("1", "abc"), row("2", UNCHANGED), SHORT)
    assert found is not None
    assert found.action is UPDATE


def test_a_filter_that_needs_a_value_that_the_wal_does_not_have_is_an_error_without_the_row():
    with pytest.raises(RowFilterError, match='needs column "b"') as caught:
        filtered(UPDATE, None, row("12", UNCHANGED), SHORT)
    assert caught.value.sqlstate == "42P10"
    assert "12" not in caught.value.report()


def test_a_filter_sees_the_columns_of_the_ancestor():
    """B12."""
    leaf = RelationData(table("public.l", {"b": "text", "a": "int4"}, key=["a"], oid=16390))
    via_root = RelationSyncEntry(leaf, T, frozenset({"insert"}), filters={"insert": ABOVE_10}, places=(1, 0))
    assert row_change(INSERT, None, row("x", "1"), via_root) is None
    found = row_change(INSERT, None, row("x", "11"), via_root)
    assert found is not None
    assert row_message(found, via_root, None, catalog=None) == m.Insert(T.oid, (TextValue(b"11"), TextValue(b"x")))


def test_a_filter_sees_columns_that_are_not_sent():
    """B12a."""
    listed = entry(columns=frozenset({2}), filters={"insert": ABOVE_10})
    found = row_change(INSERT, None, row("11", "x"), listed)
    assert found is not None
    assert row_message(found, listed, None, catalog=None) == m.Insert(T.oid, (TextValue(b"x"),))


@pytest.mark.parametrize(("relation", "kind"), [(T, "K"), (FULL, "O")])
def test_the_kind_of_the_old_row_is_that_of_the_relation_that_the_message_names(relation, kind):
    """A9, A10: a key is as wide as the row."""
    old, new = row("1", None).values, row("2", "x").values
    update = row_message(RowChange(UPDATE, old, new), entry(relation), 9, catalog=None)
    key = (TextValue(b"1"), NULL)
    assert update == m.Update(T.oid, kind, key, (TextValue(b"2"), TextValue(b"x")), 9)
    assert row_message(RowChange(DELETE, old, new), entry(relation), None, catalog=None) == m.Delete(T.oid, kind, key)


def test_binary_is_used_for_values_that_have_the_format():
    """A11, A12."""
    values = (Datum(b"1", b"\0\0\0\1"), Datum(b"{=r/postgres}"))
    change = RowChange(INSERT, None, values)
    assert row_message(change, entry(), None, catalog=HistoricCatalog()) == m.Insert(
        T.oid, (BinaryValue(b"\0\0\0\1"), TextValue(b"{=r/postgres}"))
    )
    assert row_message(change, entry(), None, catalog=None) == m.Insert(
        T.oid, (TextValue(b"1"), TextValue(b"{=r/postgres}"))
    )


@pytest.mark.parametrize("array", [1034, 3644], ids=["aclitem", "gtsvector"])
def test_an_array_whose_elements_have_no_binary_format_is_an_error_in_a_binary_stream(array):
    """The workload arrays_without_a_binary_format has the server's error."""
    relation = RelationData(table("t", {"a": "int4", "b": "text"}))
    columns = (relation.columns[0], replace(relation.columns[1], type_oid=array))
    relation = RelationData(replace(relation.table, columns=columns))
    found = RelationSyncEntry(relation, relation)
    change = RowChange(INSERT, None, (NULL, Datum(b"{}")))
    with pytest.raises(NotSupportedError, match="no binary output function available for type") as raised:
        row_message(change, found, None, catalog=HistoricCatalog())
    assert (raised.value.sqlstate, raised.value.column) == ("42883", "b")
    empty = RowChange(INSERT, None, (NULL, NULL))
    assert row_message(empty, found, None, catalog=HistoricCatalog()) == m.Insert(relation.oid, (NULL, NULL))
    assert row_message(change, found, None, catalog=None) == m.Insert(relation.oid, (NULL, TextValue(b"{}")))
