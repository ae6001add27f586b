"""The roles that read and write tables; tests of a role stand in the folder of its dialect."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

import pytest

from subscriber.targets.table_roles import TableRole, TableRoles

NAMES = ("shapes", "values", "matching", "writing", "loading", "reading", "ddl", "sequences", "row_versions", "objects")


@dataclass
class Two:
    """A target with two roles, which counts how often its roles are created."""

    created: list[TableRoles] = field(default_factory=list)

    shapes = TableRole[object]()
    bulk = TableRole[object]()

    def open_table_roles(self) -> TableRoles:
        roles = TableRoles(**{name: object() for name in NAMES})  # type: ignore[arg-type]
        self.created.append(roles)
        return roles


def test_the_first_use_of_a_role_creates_all_roles_once():
    two = Two()
    assert two.created == []
    assert two.shapes is two.shapes
    assert two.bulk is None
    assert [roles.shapes for roles in two.created] == [two.shapes]


def test_all_threads_get_the_same_roles():
    two = Two()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(two.shapes)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == len(two.created) == 1


def test_a_role_that_was_set_stays(monkeypatch):
    two = Two()
    monkeypatch.setitem(vars(two), "shapes", "mine")
    assert two.bulk is None
    assert two.shapes == "mine"


def test_a_target_has_its_roles(target):
    roles = target.open_table_roles()
    for name, role in vars(roles).items():
        assert type(getattr(target, name)) is type(role)


@pytest.mark.parametrize("name", NAMES)
def test_a_target_takes_other_roles(target, name):
    roles = replace(target.open_table_roles(), **{name: "mine"})
    assert getattr(replace(target, open_table_roles=lambda: roles), name) == "mine"
