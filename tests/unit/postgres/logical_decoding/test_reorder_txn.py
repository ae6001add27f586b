"""Changes: their size in memory, and their way to disk and back."""

from __future__ import annotations

import pickle

import pytest

from subscriber.postgres.logical_decoding.historic_catalog import CatalogChange
from subscriber.postgres.logical_decoding.reorder_txn import (
    Action,
    ReorderBufferChange,
    ReorderBufferTXN,
    change_size,
)
from tests.output_plugins import T, row

TXN = ReorderBufferTXN(700, 100)
CHUNKS = 3 * (80 + 24 + 36)


def change(action: Action, **fields) -> ReorderBufferChange:
    return ReorderBufferChange(action, 100, TXN, **fields)


@pytest.mark.parametrize(
    ("one", "size"),
    [
        (change(Action.INSERT, new_tuple=row("abc")), 80 + 24 + 28),
        (change(Action.UPDATE, old_tuple=row("ab"), new_tuple=row("abc")), 80 + 24 + 27 + 24 + 28),
        (change(Action.INSERT, new_tuple=row("x" * 5000, external=True)), 80 + 24 + 42 + 5000 + CHUNKS),
        (change(Action.MESSAGE, prefix="pfx", content=b"hello"), 80 + 4 + 5 + 16),
        (change(Action.TRUNCATE, relation_oids=(1, 2, 3)), 80 + 12),
        (change(Action.INVALIDATION, catalog_changes=(CatalogChange(relations=(T,)),)), 80 + 16),
        (change(Action.INTERNAL_SNAPSHOT), 80 + 120),
        (change(Action.INTERNAL_SPEC_CONFIRM), 80),
    ],
    ids=lambda one: one.action.name if isinstance(one, ReorderBufferChange) else str(one),
)
def test_the_size_of_a_change_is_postgresqls(one, size):
    """E6."""
    assert change_size(one) == size


def test_a_change_comes_back_from_disk_as_it_was():
    before = change(Action.UPDATE, origin_id=3, relation_oid=5, old_tuple=row("a"), new_tuple=row("b"), cascade=True)
    after = ReorderBufferChange.restored(pickle.loads(pickle.dumps(before.stored())), TXN)
    fields = ReorderBufferChange.__slots__
    assert [getattr(after, name) for name in fields] == [getattr(before, name) for name in fields]


def test_the_top_of_a_transaction_is_itself_or_its_parent():
    child = ReorderBufferTXN(701, 110, TXN)
    assert (TXN.top, child.top) == (TXN, TXN)
    assert (TXN.is_subtransaction, child.is_subtransaction) == (False, True)


def test_a_change_shows_no_value():
    """names_are_data."""
    assert "secret" not in repr(change(Action.INSERT, new_tuple=row("secret"), content=b"secret"))
