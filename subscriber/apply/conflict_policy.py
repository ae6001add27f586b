"""What becomes of a change that is in conflict with the rows of the target: the one place where
that is decided.

::

    a row is missing, or was written by another origin ──▶ the policy ──┬─▶ SKIP, APPLY_REMOTE   counted, recorded, logged
    a key exists: the target has refused the change    ──▶ the policy ──┴─▶ ERROR                the transaction stops

PostgreSQL's way is the only policy: skip what is missing, change what another origin has written,
stop at what exists (rules C18-C22). Whatever decides, a change that goes on does so as PostgreSQL's
does; what no writer can do yet is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from subscriber.apply.conflict import Conflict
from subscriber.apply.failure import as_conflict
from subscriber.catalog.conflict_kinds import ConflictKind
from subscriber.errors import ConflictError, NotSupportedError, SubscriberError

_SERIALIZATION_FAILURE: Final = "40001"
"""PostgreSQL's SQLSTATE of conflicts that violate no key."""


class Resolution(StrEnum):
    """What becomes of a change that is in conflict."""

    APPLY_REMOTE = "apply_remote"
    """It is made all the same."""
    SKIP = "skip"
    """It is left out."""
    ERROR = "error"
    """Its transaction stops."""


class ConflictPolicy(Protocol):
    """Decides about conflicts."""

    def resolve(self, conflict: Conflict) -> Resolution:
        """What becomes of the change."""


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
    """PostgreSQL's way."""

    def resolve(self, conflict: Conflict) -> Resolution:
        """See :meth:`ConflictPolicy.resolve`."""
        return _POSTGRESQL[conflict.kind]


POSTGRESQL_POLICY: Final = PostgreSQLPolicy()


def stopped_by(
    conflict: Conflict, policy: ConflictPolicy, refused: SubscriberError | None = None
) -> SubscriberError | None:
    """The error with which a conflict stops its transaction; None where the change goes on.

    Args:
        conflict: as it is to be shown.
        policy: decides.
        refused: the target's error, where it has refused the change.
    """
    resolution = policy.resolve(conflict)
    if resolution is Resolution.ERROR:
        return as_conflict(refused or ConflictError(conflict.kind, sqlstate=_SERIALIZATION_FAILURE), conflict)
    if resolution is _POSTGRESQL[conflict.kind]:
        return None
    return NotSupportedError(f'resolution "{resolution}" is not supported for conflict "{conflict.kind}"')
