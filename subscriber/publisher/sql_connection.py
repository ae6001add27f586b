"""Connections to the publisher through psycopg that let other threads run while they wait.

``PGconn.connect`` and ``PGconn.get_result`` of psycopg's libpq layer keep the lock of the
interpreter while they wait for the server. A server that does not answer would stop every thread of
the process: all subscriptions of a run, and the thread that ends it.
"""

from __future__ import annotations

import select
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import pq

from subscriber.errors import PublisherError
from subscriber.publisher.conninfo import check_conninfo, check_session
from subscriber.publisher.server_errors import connection_refused
from subscriber.schema.server_features import ServerFeatures

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
"""Rows are tuples. The connection is in autocommit mode unless its user changes that."""

_WAIT_SECONDS: Final = 1.0


def connected(conninfo: str) -> Connection:
    """Connect to the publisher, in autocommit mode.

    Args:
        conninfo: the connection string, with the settings of the session.

    Raises:
        PublisherError: there is no connection, with libpq's message, or the session does not have
            the settings that were asked for.
    """
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
    except psycopg.Error as error:  # psycopg also raises this for a connect_timeout that is no number
        # libpq's message, if there is one; psycopg adds other text before it.
        told = b"" if error.pgconn is None else error.pgconn.error_message
        reason = told.decode("utf-8", "replace").strip() or str(error)
        raise connection_refused(reason, check_conninfo(conninfo).get("user") or "") from error
    try:
        check_session(connection.info.parameter_status)
    except PublisherError:
        connection.close()
        raise
    return connection


def next_result(pgconn: pq.abc.PGconn) -> pq.abc.PGresult | None:
    """Wait for the next result of a command, and return it; None after the last one.

    Raises:
        psycopg.OperationalError: the connection was lost.
    """
    while pgconn.is_busy():
        select.select([pgconn.socket], [], [], _WAIT_SECONDS)
        pgconn.consume_input()
    return pgconn.get_result()


def features_of(connection: Connection) -> ServerFeatures:
    """The features of a connection's server."""
    return ServerFeatures(connection.info.server_version)
