"""Replication origins of a PostgreSQL target: what is applied is marked as replicated (rules C32,
C34, C38).

Origins are the cluster's and subscriptions the database's, so ``pg_16394`` of a subscription is
``subscriber_<database>_pg_16394`` here. A connection writes as one origin at a time, and gives it
back when it goes back to its pool. A role that may not use origins marks nothing, which is said
once.
"""

from __future__ import annotations

import logging
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.lsn import LSN, format_lsn
from subscriber.targets.roles.errors import Errors

logger = logging.getLogger(__name__)

_ORIGIN: Final = "subscriber_origin"
"""Under this name a connection knows the replication origin that it writes as: its number."""
_TRACKED: Final = "subscriber_commit_times"
"""Under this name, whether the server keeps commit times."""
_NOT_ALLOWED: Final = frozenset({"42501", "53400"})

_DATABASE: Final = sa.text("SELECT oid::text FROM pg_database WHERE datname = current_database()")
_CREATE_ORIGIN: Final = sa.text(
    "SELECT CASE WHEN pg_replication_origin_oid(:name) IS NULL THEN pg_replication_origin_create(:name) END"
)
_SET_ORIGIN: Final = sa.text(
    # From the table, not by pg_replication_origin_oid: what another session has made, a cache may
    # not know yet.
    "SELECT pg_replication_origin_session_setup(roname), roident AS number,"
    " current_setting('track_commit_timestamp') = 'on' AS tracked FROM pg_replication_origin WHERE roname = :name"
)
_RESET_ORIGIN: Final = sa.text("SELECT pg_replication_origin_session_reset()")
_SET_ORIGIN_POSITION: Final = sa.text(
    "SELECT pg_replication_origin_xact_setup(CAST(:lsn AS pg_lsn),"
    " timestamptz '2000-01-01 00:00:00+00' + :microseconds * interval '1 microsecond')"
)
_DROP_ORIGIN: Final = sa.text(
    "SELECT CASE WHEN pg_replication_origin_oid(:name) IS NOT NULL THEN pg_replication_origin_drop(:name) END"
)


class PostgreSQLOrigins:
    """See :class:`~subscriber.targets.roles.origins.Origins`; those of one target's subscriptions.

    Args:
        engine: of the target.
        errors: of the target.
    """

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self._made: dict[str, str | None] = {}

    def set(self, connection: sa.Connection, name: str) -> None:
        """See :meth:`Origins.set`; where the role may not, nothing is marked, which is said
        once.
        """
        with self._errors.reporting():
            if name not in self._made:
                self._made[name] = self._make(connection, name)
            made = self._made[name]
            if made is None:
                return
            row = connection.execute(_SET_ORIGIN, {"name": made}).one_or_none()
            if row is None:  # dropped meanwhile, with a subscription of the same number
                self._make(connection, name)
                row = connection.execute(_SET_ORIGIN, {"name": made}).one()
        connection.info[_ORIGIN] = int(row.number)
        connection.info[_TRACKED] = row.tracked

    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """See :meth:`Origins.set_position`."""
        if timestamp is not None and _ORIGIN in connection.info:
            connection.execute(_SET_ORIGIN_POSITION, {"lsn": format_lsn(LSN(lsn)), "microseconds": timestamp})

    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """See :meth:`Origins.others`; with ``track_commit_timestamp`` only."""
        own = connection.info.get(_ORIGIN)
        # That of a later transaction may be told apart only where commit times are kept.
        if own is None or not connection.info.get(_TRACKED):
            return None
        # What this transaction itself has written has no time yet.
        return sa.literal_column(
            "(SELECT v.roident FROM pg_xact_commit_timestamp_origin(xmin) v WHERE v.timestamp IS NOT NULL)", sa.Integer
        ) != sa.literal_column(str(own))

    def drop(self, connection: sa.Connection, name: str) -> None:
        """See :meth:`Origins.drop`; what its rows are marked with is a number, which may be given
        again.
        """
        if self._made.get(name, "") is None:
            return
        try:
            with connection.begin_nested():
                connection.execute(_DROP_ORIGIN, {"name": _qualified(connection, name)})
        except exc.DBAPIError as error:
            logger.warning("a replication origin is left in the target: %s", self._errors.translate(error).message)

    def _make(self, connection: sa.Connection, name: str) -> str | None:
        made = _qualified(connection, name)
        autocommit = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        try:
            with autocommit.connect() as other:
                other.execute(_CREATE_ORIGIN, {"name": made})
                other.execute(_SET_ORIGIN, {"name": made})
                other.execute(_RESET_ORIGIN)
        except exc.DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _NOT_ALLOWED:
                raise
            logger.warning(
                "the target's role may not use replication origins: what is applied is not marked as replicated"
            )
            return None
        return made


def reset_origin(connection: Any, record: Any) -> None:
    """On the way back to the pool: what the connection writes next may be anybody's, and the origin
    somebody else's to use.
    """
    if connection is None or record.info.pop(_ORIGIN, None) is None:
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_replication_origin_session_reset()")
        connection.commit()
    except connection.Error:
        record.invalidate()


def _qualified(connection: sa.Connection, name: str) -> str:
    return f"subscriber_{connection.execute(_DATABASE).scalar_one()}_{name}"
