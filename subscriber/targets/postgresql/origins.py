"""Replication origins of a PostgreSQL target: applied changes are marked as replicated (rules C32,
C34, C38).

Origins belong to the cluster, but subscriptions belong to the database. Therefore the origin of
subscription ``pg_16394`` is called ``subscriber_<database>_pg_16394`` here. A connection uses one
origin at a time, and releases it when the connection returns to its pool. If the target's database
role may not use origins, nothing is marked, and a warning is logged once.
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
"""The key under which a connection stores the number of the replication origin that it uses."""
_TRACKED: Final = "subscriber_commit_times"
"""The key under which a connection stores whether the server records commit times."""
_NOT_ALLOWED: Final = frozenset({"42501", "53400"})

_DATABASE: Final = sa.text("SELECT oid::text FROM pg_database WHERE datname = current_database()")
_CREATE_ORIGIN: Final = sa.text(
    "SELECT CASE WHEN pg_replication_origin_oid(:name) IS NULL THEN pg_replication_origin_create(:name) END"
)
_SET_ORIGIN: Final = sa.text(
    # From the table and not by pg_replication_origin_oid: a cache may not yet contain an origin
    # that another session has created.
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
    """The replication origins of one target's subscriptions.

    See :class:`~subscriber.targets.roles.origins.Origins`.

    Args:
        engine: the target's engine.
        errors: the target's role for errors.
    """

    def __init__(self, engine: sa.Engine, errors: Errors) -> None:
        self._engine = engine
        self._errors = errors
        self._made: dict[str, str | None] = {}

    def set(self, connection: sa.Connection, name: str) -> None:
        """See :meth:`Origins.set`.

        If the database role may not use origins, nothing is marked, and a warning is logged once.
        """
        with self._errors.reporting():
            if name not in self._made:
                self._made[name] = self._make(connection, name)
            made = self._made[name]
            if made is None:
                return
            row = connection.execute(_SET_ORIGIN, {"name": made}).one_or_none()
            if row is None:  # another process dropped it, with a subscription of the same number
                self._make(connection, name)
                row = connection.execute(_SET_ORIGIN, {"name": made}).one()
        connection.info[_ORIGIN] = int(row.number)
        connection.info[_TRACKED] = row.tracked

    def set_position(self, connection: sa.Connection, lsn: int, timestamp: int | None) -> None:
        """See :meth:`Origins.set_position`."""
        if timestamp is not None and _ORIGIN in connection.info:
            connection.execute(_SET_ORIGIN_POSITION, {"lsn": format_lsn(LSN(lsn)), "microseconds": timestamp})

    def others(self, connection: sa.Connection) -> sa.ColumnElement[bool] | None:
        """See :meth:`Origins.others`; None without ``track_commit_timestamp``."""
        own = connection.info.get(_ORIGIN)
        # The origin of a row's last transaction is recorded only with its commit time.
        if own is None or not connection.info.get(_TRACKED):
            return None
        # Rows that this transaction itself wrote do not have a commit time yet.
        return sa.literal_column(
            "(SELECT v.roident FROM pg_xact_commit_timestamp_origin(xmin) v WHERE v.timestamp IS NOT NULL)", sa.Integer
        ) != sa.literal_column(str(own))

    def drop(self, connection: sa.Connection, name: str) -> None:
        """See :meth:`Origins.drop`.

        Rows remain marked with the origin's number, which a later origin may get.
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
                "the target's role may not use replication origins: applied changes are not marked as replicated"
            )
            return None
        return made


def reset_origin(connection: Any, record: Any) -> None:
    """Release the replication origin when a connection returns to its pool.

    The connection's next changes may belong to another subscription, and another connection may
    need the origin.
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
