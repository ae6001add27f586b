"""Values are left unwritten only if the target's columns accept all of them (invariant
fast_equals_exact).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from subscriber.apply.regrouping import foldable
from subscriber.apply.regrouping.foldable import holds_all
from subscriber.apply.relations.local_relations import RelationMap
from subscriber.errors import UnsupportedValue
from subscriber.protocol import messages as m
from tests.changes import T, delete, insert, update
from tests.frames import frame


@pytest.fixture
def holds(target, tables):
    """Whether the columns of ``t`` accept all values of one change."""

    def ask(change: m.Message, *, binary: Sequence[str] = (), **columns: dict[str, Any]) -> bool:
        with target.begin() as connection:
            local = RelationMap(target, connection).open(T)
        changed = tuple(replace(one, **columns.get(one.name, {})) for one in local.columns)
        (group,) = frame([T], [change], binary=binary).groups
        return holds_all(target, replace(local, columns=changed), group)

    return ask


def test_a_column_of_the_same_type_accepts_every_value(holds):
    assert holds(insert("1", "x", None))
    assert holds(update(("1", "x", m.UNCHANGED)))
    assert holds(delete("1"))


@pytest.mark.parametrize("column", [{"nullable": False}, {"null_is_generated": True}], ids=["NOT NULL", "generated"])
def test_a_null_may_be_refused(holds, column):
    assert holds(update(("1", "x", m.UNCHANGED)), c=column)
    assert holds(update(("1", "x", "y")), c=column)
    assert not holds(update(("1", "x", None)), c=column)


def test_a_value_that_the_column_may_not_accept_is_written(holds):
    assert not holds(update(("1", "x", "y")), b={"declared_type": "CHARACTER VARYING(10)"})
    assert holds(update(("1", m.UNCHANGED, "y")), b={"declared_type": "CHARACTER VARYING(10)"})


def test_a_row_without_its_key_or_an_insert_without_a_column_is_written(holds):
    assert not holds(update((m.UNCHANGED, "x", "y"), old=("1", "x", "y")))
    assert not holds(insert("1", "x", m.UNCHANGED))


def test_long_rows_are_written(holds, monkeypatch):
    """A target may limit the length of a row."""
    monkeypatch.setattr(foldable, "_MOST_BYTES", 100)
    assert holds(update(("1", "x", "y")))
    assert not holds(update(("1", "x" * 100, "y")))


def test_a_value_in_binary_format_may_be_refused(holds, target, monkeypatch):
    """C5"""
    assert holds(update(("1", "x", "y")), binary=["b"])
    refused = UnsupportedValue("incorrect binary data format", sqlstate="22P03")
    monkeypatch.setattr(target.values, "refused_binary", lambda oid, column, number=None: refused)
    assert not holds(update(("1", "x", "y")), binary=["b"])
    assert not holds(delete("1"), binary=["a"])
    assert holds(update(("1", "x", "y")), binary=[])
