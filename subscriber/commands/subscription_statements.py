"""The commands of ``subscriber sql`` as data.

The options of ALTER SUBSCRIPTION are stored as they were written. PostgreSQL looks for the
subscription before it reads the options, so if both are wrong, the error is that of the
subscription.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.publication.publication_statements import PublicationCommand, RelationName
from subscriber.sql.option_list import OptionList


@dataclass(frozen=True, slots=True)
class CreateSubscription:
    """CREATE SUBSCRIPTION, with its options read and checked."""

    name: str
    conninfo: str = field(repr=False)  # may hold a password
    publications: tuple[str, ...]
    options: SubscriptionOptions


@dataclass(frozen=True, slots=True)
class DropSubscription:
    """DROP SUBSCRIPTION.

    ``cascade`` has no effect, as in PostgreSQL, since nothing depends on a subscription.
    """

    name: str
    if_exists: bool
    cascade: bool


@dataclass(frozen=True, slots=True)
class AlterConnection:
    """ALTER SUBSCRIPTION … CONNECTION."""

    name: str
    conninfo: str = field(repr=False)  # may hold a password


@dataclass(frozen=True, slots=True)
class AlterPublications:
    """ALTER SUBSCRIPTION … SET, ADD or DROP PUBLICATION."""

    name: str
    action: Literal["set", "add", "drop"]
    publications: tuple[str, ...]
    options: OptionList


@dataclass(frozen=True, slots=True)
class RefreshPublication:
    """ALTER SUBSCRIPTION … REFRESH PUBLICATION."""

    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class RefreshSequences:
    """ALTER SUBSCRIPTION … REFRESH SEQUENCES."""

    name: str


@dataclass(frozen=True, slots=True)
class RefreshTables:
    """ALTER SUBSCRIPTION … REFRESH TABLE, with the tables by the publisher's names."""

    name: str
    tables: tuple[RelationName, ...]


@dataclass(frozen=True, slots=True)
class RecreateSlot:
    """ALTER SUBSCRIPTION … RECREATE SLOT."""

    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class AlterEnabled:
    """ALTER SUBSCRIPTION … ENABLE or DISABLE."""

    name: str
    enabled: bool


@dataclass(frozen=True, slots=True)
class AlterOptions:
    """ALTER SUBSCRIPTION … SET (…)."""

    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class AlterSkip:
    """ALTER SUBSCRIPTION … SKIP (…)."""

    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class AlterOwner:
    """ALTER SUBSCRIPTION … OWNER TO. ``owner`` is None for the current role (CURRENT_USER and its
    synonyms).
    """

    name: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class RenameSubscription:
    """ALTER SUBSCRIPTION … RENAME TO."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class TruncateTables:
    """TRUNCATE, with the tables by the publisher's names."""

    tables: tuple[RelationName, ...]
    restart_identity: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT for the target, in the target's SQL dialect, without its semicolon."""

    sql: str


AlterSubscription = (
    AlterConnection
    | AlterPublications
    | RefreshPublication
    | RefreshSequences
    | RefreshTables
    | RecreateSlot
    | AlterEnabled
    | AlterOptions
    | AlterSkip
    | AlterOwner
    | RenameSubscription
)
SubscriptionCommand = CreateSubscription | AlterSubscription | DropSubscription
Command = SubscriptionCommand | PublicationCommand | TruncateTables | Query
