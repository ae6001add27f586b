"""The roles of a target that read and write tables of rows. A target imports them when the first of
them is used.

::

    target.url, .engine, .errors, .transactions, …     exist from the beginning
    target.shapes, .values, .writing, .loading, …      are created together by ``open_table_roles``

The roles need Arrow, PostgreSQL's types and a parser of default expressions. Commands that only
read the catalog or run a query (``subscriber status``, ``subscriber sql -c 'SELECT …'``) need none
of them, and importing them takes longer than such a command. So the function that a dialect passes
to :class:`~subscriber.targets.target.Target` imports the modules of these roles itself.

A new role is a line in :class:`TableRoles`, a line in ``Target`` and a line in each dialect.

*Rejected:* a role that is a proxy and imports its module when a method is called. Each role would
need one, they know each other, and a proxy is not the role that it stands for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from subscriber.targets.roles.ddl import DDL
from subscriber.targets.roles.loading import Loading
from subscriber.targets.roles.matching import Matching
from subscriber.targets.roles.objects import Objects
from subscriber.targets.roles.reading import Reading
from subscriber.targets.roles.row_versions import RowVersions
from subscriber.targets.roles.sequences import Sequences
from subscriber.targets.roles.shapes import Shapes
from subscriber.targets.roles.values import Values
from subscriber.targets.roles.writing import Writing

if TYPE_CHECKING:
    from subscriber.targets.roles.bulk import Bulk  # its module imports Arrow

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class TableRoles:
    """The roles; see the class of each role in :mod:`subscriber.targets.roles`."""

    shapes: Shapes
    values: Values
    matching: Matching
    writing: Writing
    loading: Loading
    reading: Reading
    ddl: DDL
    sequences: Sequences
    row_versions: RowVersions
    objects: Objects
    bulk: Bulk | None = None


class _OpensRoles(Protocol):
    @property
    def open_table_roles(self) -> Callable[[], TableRoles]: ...


_OPENING = threading.RLock()  # threads of one target must get the same roles


class TableRole(Generic[R]):
    """The attribute of a target for one of the roles.

    It works as :func:`functools.cached_property` does, but the first use sets the attributes of all
    roles that were not set.
    """

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, target: _OpensRoles, _owner: type) -> R:
        attributes: dict[str, Any] = vars(target)
        with _OPENING:
            if self._name not in attributes:
                attributes.update(vars(target.open_table_roles()) | attributes)
        return cast("R", attributes[self._name])
