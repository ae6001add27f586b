"""The transactions of a session: their numbers, savepoints, prepared transactions, and the records
that begin and end them.

A transaction gets its number with its first change, and a savepoint with its first change after it,
as in PostgreSQL (``AssignTransactionId``). So a savepoint without a change leaves nothing in the
WAL.

After an error in a statement the transaction is aborted, as in PostgreSQL: it takes no other
statement, and COMMIT rolls it back. ROLLBACK TO SAVEPOINT goes back to before the error. So what a
statement wrote before its error never commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from subscriber.errors import UsageError
from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.historic_catalog import CatalogChange, HistoricCatalog
from subscriber.output_plugin.publisher.state import Prepared, PublisherState

_Record = TypeVar("_Record", bound=wal.WalRecord)


@dataclass(slots=True)
class _Level:
    """A level of a transaction: the transaction itself, or a savepoint.

    Attributes:
        name: the savepoint's name; empty for the transaction.
        xid: its number; 0 before its first change.
        children: the numbers of subtransactions that were released into it.
        changes: the catalog changes, released ones included.
    """

    name: str = ""
    xid: int = 0
    children: list[int] = field(default_factory=list)
    changes: list[CatalogChange] = field(default_factory=list)

    @property
    def xids(self) -> list[int]:
        """Its number and those of its children."""
        return [*([self.xid] if self.xid else []), *self.children]


class TransactionSession:
    """The transactions of a session, without statements.

    Args:
        state: what all sessions share.
    """

    def __init__(self, state: PublisherState) -> None:
        self._state = state
        self._levels: list[_Level] = []
        self._origin = ""
        self._origin_xact: tuple[int, int | None] = (0, None)
        self._is_aborted = False

    @property
    def catalog(self) -> HistoricCatalog:
        """The catalogs as this session sees them."""
        return self._state.catalog.apply_all(change for level in self._levels for change in level.changes)

    @property
    def xid(self) -> int:
        """The number of the transaction; 0 if it has none yet."""
        return self._levels[0].xid if self._levels else 0

    def begin(self) -> None:
        """BEGIN

        Raises:
            UsageError: 25001, there is a transaction already.
        """
        if self._levels:
            raise UsageError("there is already a transaction in progress", sqlstate="25001", hint="End it first.")
        self._levels = [_Level()]

    def commit(self) -> None:
        """COMMIT; after an error it is ROLLBACK.

        Raises:
            UsageError: 25P01, there is no transaction.
        """
        if self._is_aborted:
            self.rollback()
            return
        top = self._merged()
        if top.xid:
            self._finish(wal.Commit, top.xid, top.children)
            self._ended(top.xids, committed=True)
            self._state.catalog = self._state.catalog.apply_all(top.changes)

    def rollback(self) -> None:
        """ROLLBACK

        Raises:
            UsageError: 25P01, there is no transaction.
        """
        top = self._merged()
        if top.xid:
            self._finish(wal.Abort, top.xid, top.children)
            self._ended(top.xids, committed=False)

    def prepare(self, gid: str) -> None:
        """PREPARE TRANSACTION; after an error it is ROLLBACK.

        Raises:
            UsageError: 25P01, there is no transaction; 42710, the name is in use.
        """
        if self._is_aborted:
            self.rollback()
            return
        if gid in self._state.prepared:
            raise UsageError(
                f'transaction identifier "{gid}" is already in use', sqlstate="42710", hint="Choose another identifier."
            )
        top = self._merged()
        if top.xid:
            self._finish(wal.Prepare, top.xid, top.children, gid=gid)
            self._state.prepared[gid] = Prepared(top.xid, tuple(top.children), tuple(top.changes))

    def commit_prepared(self, gid: str) -> None:
        """COMMIT PREPARED

        Raises:
            UsageError: 42704, there is no such prepared transaction.
        """
        prepared = self._take_prepared(gid)
        self._finish(wal.CommitPrepared, prepared.xid, prepared.subxids, gid=gid)
        self._ended([prepared.xid, *prepared.subxids], committed=True)
        self._state.catalog = self._state.catalog.apply_all(prepared.changes)

    def rollback_prepared(self, gid: str) -> None:
        """ROLLBACK PREPARED

        Raises:
            UsageError: 42704, there is no such prepared transaction.
        """
        prepared = self._take_prepared(gid)
        self._finish(wal.RollbackPrepared, prepared.xid, prepared.subxids, gid=gid)
        self._ended([prepared.xid, *prepared.subxids], committed=False)

    def savepoint(self, name: str) -> None:
        """SAVEPOINT

        Raises:
            UsageError: 25P01, there is no transaction; 25P02, it is aborted.
        """
        self._require()
        self._check_not_aborted()
        self._levels.append(_Level(name))

    def release(self, name: str) -> None:
        """RELEASE SAVEPOINT: the changes now belong to what surrounds the savepoint.

        Raises:
            UsageError: 3B001, there is no such savepoint; 25P02, the transaction is aborted.
        """
        self._check_not_aborted()
        place = self._place(name)
        while len(self._levels) > place:
            level = self._levels.pop()
            self._levels[-1].children += level.xids
            self._levels[-1].changes += level.changes
            if level.xid:
                self._state.log(wal.SubtransactionCommit, xid=level.xid)

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TO SAVEPOINT: undo what was done since; the savepoint stays.

        Raises:
            UsageError: 3B001, there is no such savepoint.
        """
        place = self._place(name)
        gone = self._levels[place:]
        self._levels[place:] = [_Level(name)]
        for level in reversed(gone):
            if level.xid:
                self._log(
                    wal.SubtransactionAbort,
                    xid=level.xid,
                    subxids=tuple(level.children),
                    timestamp=self._state.now(),
                )
            self._ended(level.xids, committed=False)
        self._is_aborted = False

    def replicate_origin(self, name: str) -> None:
        """``pg_replication_origin_session_setup``: what follows was replicated from that origin; an
        empty name ends it.

        Raises:
            UsageError: 42704, there is no such origin.
        """
        if name:
            self._state.origin(name)
        self._origin = name
        self._origin_xact = (0, None)

    def origin_xact(self, lsn: int, timestamp: int | None = None) -> None:
        """``pg_replication_origin_xact_setup``: the position and time of the next commit at the
        origin. Without another call they are those of the commits after it, too.
        """
        self._origin_xact = (lsn, timestamp)

    # For statements -------------------------------------------------------------------------------

    @contextmanager
    def _statement(self) -> Iterator[None]:
        """A statement: in the transaction, or in one of its own.

        Raises:
            UsageError: 25P02, the transaction is aborted.
        """
        self._check_not_aborted()
        if self._levels:
            try:
                yield
            except BaseException:
                self._is_aborted = True
                raise
            return
        self.begin()
        try:
            yield
        except BaseException:
            self.rollback()
            raise
        self.commit()

    def _assigned(self) -> int:
        """The number of the innermost level, which gets one now if it has none."""
        for depth, level in enumerate(self._levels):
            if level.xid:
                continue
            level.xid = self._state.new_xid()
            if depth:
                self._log(wal.SubtransactionStart, xid=level.xid, top_xid=self.xid)
            else:
                self._log(wal.Begin, xid=level.xid)
        return self._levels[-1].xid

    def _own(self) -> frozenset[int]:
        return frozenset(xid for level in self._levels for xid in level.xids)

    def _log(self, kind: Callable[..., _Record], **fields: Any) -> _Record:
        origin = self._state.origin(self._origin) if self._origin else 0
        return self._state.log(kind, origin_id=origin, **fields)

    def _change_catalog(self, change: CatalogChange) -> None:
        self._log(wal.SchemaChange, xid=self._assigned(), change=change)
        self._levels[-1].changes.append(change)

    def _finish(self, kind: Callable[..., _Record], xid: int, subxids: Any, **fields: Any) -> None:
        now = self._state.now()
        lsn, timestamp = self._origin_xact
        if self._origin and timestamp is None and kind is not wal.Prepare:
            timestamp = now
            self._origin_xact = (lsn, now)
        self._log(
            kind,
            xid=xid,
            subxids=tuple(subxids),
            timestamp=now,
            origin_lsn=lsn,
            origin_timestamp=timestamp,
            **fields,
        )

    def _ended(self, xids: list[int], *, committed: bool) -> None:
        for xid in xids:
            self._state.rows.set_status(xid, "committed" if committed else "aborted")

    def _merged(self) -> _Level:
        """End the transaction: its savepoints become part of it."""
        self._require()
        top, *savepoints = self._levels
        for level in savepoints:
            top.children += level.xids
            top.changes += level.changes
        self._levels = []
        self._is_aborted = False
        return top

    def _check_not_aborted(self) -> None:
        if self._is_aborted:
            raise UsageError(
                "current transaction is aborted, commands ignored until end of transaction block",
                sqlstate="25P02",
                hint="Call rollback(), or rollback_to() with a savepoint.",
            )

    def _require(self) -> None:
        if not self._levels:
            raise UsageError("there is no transaction in progress", sqlstate="25P01", hint="Call begin() first.")

    def _place(self, name: str) -> int:
        for place in range(len(self._levels) - 1, 0, -1):
            if self._levels[place].name == name:
                return place
        self._is_aborted = bool(self._levels)
        raise UsageError(f'savepoint "{name}" does not exist', sqlstate="3B001", hint="Call savepoint() first.")

    def _take_prepared(self, gid: str) -> Prepared:
        prepared = self._state.prepared.pop(gid, None)
        if prepared is None:
            raise UsageError(
                f'prepared transaction with identifier "{gid}" does not exist',
                sqlstate="42704",
                hint="Call prepare() first.",
            )
        return prepared
