"""The roles of a target that read and write tables of rows. They are created together, when the
first of them is used.

::

    target.url, .engine, .errors, .transactions, …     there from the beginning
    target.shapes, .values, .writing, .loading, …      from TableRoles

The roles need Arrow, PostgreSQL's types and a parser of default expressions. Commands that only
read the catalog or run a query (``subscriber status``, ``subscriber sql -c 'SELECT …'``) need none
of them, and importing them takes longer than such a command. So a dialect may pass
:class:`ImportedRoles` to :class:`~subscriber.targets.target.Target`, instead of these roles.

*Rejected:* a role that is a proxy and imports its module when a method is called. Each role would
need one, they know each other, and a proxy is not the role that it stands for.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Generic, Protocol, TypeVar, overload

from subscriber.targets.roles.ddl import DDL
from subscriber.targets.roles.loading import Loading
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.row_versions import RowVersions
from subscriber.targets.roles.sequences import Sequences
from subscriber.targets.roles.shapes import Shapes
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class TableRoles:
    """The roles; see the class of each role in :mod:`subscriber.targets.roles`."""

    shapes: Shapes
    values: Values
    matching: Matching
    writing: Writing
    loading: Loading
    ddl: DDL
    sequences: Sequences
    row_versions: RowVersions


class ImportedRoles:
    """The roles of a dialect, whose modules are imported when the roles are first asked for."""

    def __init__(self, module: str, *arguments: Any) -> None:
        """Import nothing yet.

        Args:
            module: the module that has a function ``table_roles``, which creates the roles.
            arguments: the arguments of this function.
        """
        self._module, self._arguments = module, arguments
        self._lock = threading.Lock()
        self._roles: TableRoles | None = None

    def __call__(self) -> TableRoles:
        """The roles; every call returns the same ones."""
        with self._lock:
            if self._roles is None:
                self._roles = import_module(self._module).table_roles(*self._arguments)
            return self._roles


class _HasRoles(Protocol):
    imported_roles: ImportedRoles | None


class TableRole(Generic[R]):
    """The attribute of a target for one of these roles: what it was set to, or the role of its
    :class:`ImportedRoles`.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, target: None, owner: type) -> None: ...

    @overload
    def __get__(self, target: _HasRoles, owner: type) -> R: ...

    def __get__(self, target: _HasRoles | None, owner: type) -> R | None:
        if target is None:
            return None  # what a dataclass takes for the default
        role: R | None = vars(target)[self._name]
        if role is None:
            if target.imported_roles is None:
                raise AttributeError(f"the target was created without the role {self._name}")
            role = vars(target)[self._name] = getattr(target.imported_roles(), self._name)
        return role

    def __set__(self, target: _HasRoles, role: R) -> None:
        vars(target)[self._name] = role
