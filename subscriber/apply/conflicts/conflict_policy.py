"""The conflict policy: it alone decides what happens to a change that conflicts with the rows of
the target.

::

    a row is missing, or was written by another origin ──▶ the policy ──┬─▶ SKIP, APPLY_REMOTE   counted, recorded, logged
    a key exists: the target has refused the change    ──▶ the policy ──┴─▶ ERROR                the transaction stops

The only policy is PostgreSQL's: skip a change whose row is missing, change a row that another
origin has written, stop at a key that exists (rules C18-C22). Under every policy, a change that
continues is applied as PostgreSQL would apply it. A resolution that the writer cannot carry out yet
is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from subscriber.apply.conflicts.conflict import Conflict
from subscriber.apply.conflicts.failure import as_conflict
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.errors import ConflictError, NotSupportedError, SubscriberError

_SERIALIZATION_FAILURE: Final = "40001"
"""PostgreSQL's SQLSTATE of conflicts that violate no key."""


class Resolution(StrEnum):
    """What happens to a change that has a conflict."""

    APPLY_REMOTE = "apply_remote"
    """The change is applied nevertheless."""
    SKIP = "skip"
    """The change is left out."""
    ERROR = "error"
    """The transaction of the change stops."""


class ConflictPolicy(Protocol):
    """Decides about conflicts."""

    def resolve(self, conflict: Conflict) -> Resolution:
        """Decide what happens to the change."""


_POSTGRESQL: Final[Mapping[ConflictKind, Resolution]] = {
    ConflictKind.INSERT_EXISTS: Resolution.ERROR,
    ConflictKind.UPDATE_ORIGIN_DIFFERS: Resolution.APPLY_REMOTE,
    ConflictKind.UPDATE_EXISTS: Resolution.ERROR,
    ConflictKind.UPDATE_MISSING: Resolution.SKIP,
    ConflictKind.DELETE_ORIGIN_DIFFERS: Resolution.APPLY_REMOTE,
    ConflictKind.DELETE_MISSING: Resolution.SKIP,
    ConflictKind.MULTIPLE_UNIQUE_CONFLICTS: Resolution.ERROR,
}


class PostgreSQLPolicy:
    """The policy that PostgreSQL's worker follows."""

    def resolve(self, conflict: Conflict) -> Resolution:
        """See :meth:`ConflictPolicy.resolve`."""
        return _POSTGRESQL[conflict.kind]


POSTGRESQL_POLICY: Final = PostgreSQLPolicy()


def stopped_by(
    conflict: Conflict, policy: ConflictPolicy, refused: SubscriberError | None = None
) -> SubscriberError | None:
    """The error with which a conflict stops its transaction; None where the change continues.

    Args:
        conflict: the conflict, as it is to be shown.
        policy: decides about conflicts.
        refused: the target's error, where the target has refused the change.
    """
    resolution = policy.resolve(conflict)
    if resolution is Resolution.ERROR:
        return as_conflict(refused or ConflictError(conflict.kind, sqlstate=_SERIALIZATION_FAILURE), conflict)
    if resolution is _POSTGRESQL[conflict.kind]:
        return None
    return NotSupportedError(f'resolution "{resolution}" is not supported for conflict "{conflict.kind}"')
