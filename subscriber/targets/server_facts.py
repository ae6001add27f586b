"""What a migration must know of a target before it begins: its version, and the limits of its
server.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a server.

    Attributes:
        setting: the setting that is the limit.
        value: its value.
        remedy: the statement that raises it.
    """

    setting: str
    value: int
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """The properties of a target.

    Attributes:
        version: the database's version; None if it is not known.
        largest_value: the largest value in bytes that the server accepts from a client; None if no
            setting limits it.
        prepared_transactions: the number of prepared transactions that the server can have at once;
            None if no setting limits it.
    """

    version: str | None = None
    largest_value: Limit | None = None
    prepared_transactions: Limit | None = None


def read_version(connection: sa.Connection) -> TargetFacts:
    """The facts of a database of which SQLAlchemy knows the version, and nothing else is known."""
    version = connection.dialect.server_version_info
    return TargetFacts(version=None if version is None else ".".join(map(str, version)))
