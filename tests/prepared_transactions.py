"""Prepared transactions for a target that has none, for tests of the steps around them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import sqlalchemy as sa

from subscriber.catalog.own_tables import PREPARED_TRANSACTION
from subscriber.targets import Target
from subscriber.targets.base.transactions import Prepared


class ModelPrepared(Prepared):
    """The role :class:`~subscriber.targets.base.transactions.Prepared`, with GIDs in memory.

    No SQLite transaction outlives its connection. So the changes are visible from PREPARE on, and a
    rollback leaves them. Only the catalog's column ``committed`` changes as in a database that can
    prepare.

    Attributes:
        gids: the GIDs that are prepared now.
        steps: what was executed, in order.
        used_elsewhere: GIDs that are in use in another database of the server.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self.gids: set[str] = set()
        self.steps: list[str] = []
        self.used_elsewhere: set[str] = set()

    @contextmanager
    def begin(self, gid: str) -> Iterator[sa.Connection]:
        with self._target.begin() as connection:
            yield connection
            connection.execute(sa.update(PREPARED_TRANSACTION).where(_has(gid)).values(committed=False))
        self.gids.add(gid)
        self.steps.append(f"PREPARE TRANSACTION {gid}")

    def finish(self, gid: str, *, commit: bool, origin: str | None = None) -> None:
        self.gids.remove(gid)
        with self._target.begin() as connection:
            connection.execute(sa.update(PREPARED_TRANSACTION).where(_has(gid)).values(committed=commit))
        self.steps.append(f"{'COMMIT' if commit else 'ROLLBACK'} PREPARED {gid} of {origin}")

    def free_gid(self, connection: sa.Connection, gid: str) -> str:
        return f"{gid}_2" if gid in self.used_elsewhere else gid

    def names(self, connection: sa.Connection) -> frozenset[str]:
        return frozenset(self.gids)


def _has(gid: str) -> sa.ColumnElement[bool]:
    return PREPARED_TRANSACTION.c.gid == gid


def with_prepared_transactions(target: Target) -> tuple[Target, ModelPrepared]:
    """The target with this role."""
    prepared = ModelPrepared(target)
    return replace(target, prepared=prepared), prepared
