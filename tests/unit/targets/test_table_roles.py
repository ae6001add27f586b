"""The roles that read and write tables; tests of a dialect's module stand in its folder."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from types import ModuleType

import pytest

from subscriber.targets.table_roles import ImportedRoles, TableRoles


def roles(shapes: str) -> TableRoles:
    named = dict.fromkeys(("values", "matching", "writing", "loading", "ddl", "sequences", "row_versions"), "")
    return TableRoles(shapes=shapes, **named)  # type: ignore[arg-type]


@pytest.fixture
def created(monkeypatch):
    """The arguments of each call of the module ``dialect_roles``."""
    calls: list[str] = []

    def table_roles(shapes: str) -> TableRoles:
        calls.append(shapes)
        return roles(shapes)

    module = ModuleType("dialect_roles")
    monkeypatch.setattr(module, "table_roles", table_roles, raising=False)
    monkeypatch.setitem(sys.modules, "dialect_roles", module)
    return calls


def test_roles_are_created_when_they_are_asked_for(created):
    imported = ImportedRoles("dialect_roles", "a")
    assert created == []
    assert imported() == roles("a")
    assert created == ["a"]


def test_all_threads_get_the_same_roles(created):
    imported = ImportedRoles("dialect_roles", "a")
    found: list[TableRoles] = []
    threads = [threading.Thread(target=lambda: found.append(imported())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == len(created) == 1


def test_a_target_has_the_imported_roles(target, created):
    its = replace(target, shapes=None, imported_roles=ImportedRoles("dialect_roles", "a"))
    assert (its.shapes, its.shapes) == ("a", "a")
    assert created == ["a"]


def test_a_role_that_is_given_replaces_the_imported_one(target):
    assert replace(target, shapes="mine").shapes == "mine"
    assert replace(target, shapes="mine").writing is target.writing


def test_a_target_without_a_role_says_which(target):
    without = replace(target, shapes=None, imported_roles=None)
    with pytest.raises(AttributeError, match="without the role shapes"):
        without.shapes  # noqa: B018


def test_a_role_that_a_target_sets_later_is_used(target, monkeypatch):
    monkeypatch.setattr(target, "shapes", "mine")
    assert target.shapes == "mine"
