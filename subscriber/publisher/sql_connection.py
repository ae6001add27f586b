"""An ordinary connection to the publisher, as psycopg types it, and the features of its server."""

from __future__ import annotations

from typing import Any, TypeAlias

import psycopg

from subscriber.schema.server_features import ServerFeatures

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
"""Rows are tuples. The connection is in autocommit mode unless its user changes that."""


def features_of(connection: Connection) -> ServerFeatures:
    """The features of a connection's server."""
    return ServerFeatures(connection.info.server_version)
