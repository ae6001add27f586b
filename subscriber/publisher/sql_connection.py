"""An ordinary connection to the publisher, as psycopg types it, and what its server can do."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

from subscriber.schema.server_features import ServerFeatures

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
"""Rows come as tuples; the connection is in autocommit unless its user says otherwise."""


def features_of(connection: Connection) -> ServerFeatures:
    """What the server of a connection can do."""
    return ServerFeatures(connection.info.server_version)
