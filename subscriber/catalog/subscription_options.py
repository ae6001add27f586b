r"""The options of subscriptions, with PostgreSQL 18's names, defaults, checks and error texts
(C53, C54).

::

    a field of SubscriptionOptions
      ├─ name, type, default ──▶ subscription.options.binary, wherever the option is used
      ├─ read, forms ──────────▶ the commands that take it: parse_options, read_options
      ├─ column, stored, loaded ▶ its column of subscriber_subscription
      ├─ since ────────────────▶ refused if the publisher is older: commands.requirements
      ├─ restarts, streamed ───▶ what a running worker does when it changes
      └─ heading ──────────────▶ its column of \dRs+

An option passes three checks, in PostgreSQL's order. It is *read*: its value must be of the right
kind. All options together are *checked*: none may exclude another. One that the publisher or the
target does not support is *refused by name* (:mod:`subscriber.commands.requirements`). No given
option is ignored (refuse_not_guess).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from subscriber.base.errors import SQLSyntaxError
from subscriber.base.settings import parse_receiver_timeout
from subscriber.catalog.option_readers import (
    INHERITED,
    one_of,
    read_carrier,
    read_origin,
    read_receiver_timeout,
    read_retention,
    read_skip_lsn,
    read_slot_name,
    read_streaming,
    read_synchronous_commit,
    read_system_identifier,
    read_writers,
)
from subscriber.catalog.rows import TEXT
from subscriber.postgres.schema.conflict_resolvers import (
    NO_RESOLVERS,
    ConflictResolvers,
    check_resolvers,
    read_resolvers,
    stored_resolvers,
)
from subscriber.postgres.schema.history_rules import (
    MODES,
    History,
    HistoryRules,
    history_tables_text,
    parse_history_tables,
)
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import SAME_NAMES, RelationNames, TableName, parse_names
from subscriber.postgres.schema.server_features import OPTION_VERSIONS
from subscriber.postgres.schema.transform_rules import NO_TRANSFORMS, TransformRules, parse_transforms
from subscriber.postgres.schema.value_rules import STOP, ValueRules, parse_value_rules
from subscriber.postgres.sql import option_list

Form = Literal["CREATE", "SET", "PUBLICATION", "REFRESH", "SKIP"]
"""The forms of commands with options: CREATE SUBSCRIPTION … WITH; ALTER SUBSCRIPTION … SET (…); …
SET, ADD and DROP PUBLICATION … WITH; … REFRESH PUBLICATION and RECREATE SLOT … WITH; … SKIP (…).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionDescriptor:
    r"""What is known of an option: the forms of commands that take it, its column in
    ``subscriber_subscription`` and its heading in ``\dRs+`` (None: neither stored nor shown).

    Attributes:
        read: reads its value in a command, or raises PostgreSQL's error.
        since: the first version of the publisher that supports another value than the default.
            PostgreSQL's own subscriber ignores the option if the publisher is older.
        restarts: whether a change needs another worker (C39); else the next batch obeys it.
        streamed: whether it decides what the publisher sends, and how.
        heading: its heading in ``\dRs+``; None if psql does not show it.
        shown_since: the first version of PostgreSQL whose psql shows it.
    """

    default: Any = None
    read: option_list.OptionReader = option_list.read_boolean
    forms: tuple[Form, ...] = ("CREATE", "SET")
    column: sa.Column[Any] | None = None
    stored: Callable[[Any], object] = lambda value: value
    loaded: Callable[[Any], object] = lambda value: value
    since: int = 0
    restarts: bool = True
    streamed: bool = False
    heading: str | None = None
    shown_since: int = 0


def _option(**properties: Any) -> dict[str, OptionDescriptor]:
    return {"option": OptionDescriptor(**properties)}


def _boolean(name: str, **properties: Any) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, **properties)


def _word(name: str, length: int, **properties: Any) -> sa.Column[str]:
    return sa.Column(name, sa.String(length), nullable=False, **properties)


def _rules(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text().with_variant(mysql.TEXT(collation="utf8mb4_bin"), "mysql", "mariadb"))


# Values -------------------------------------------------------------------------------------------


_STREAM_CODES: Final = {"off": "f", "on": "t", "parallel": "p"}
_STREAMING: Final = {code: value for value, code in _STREAM_CODES.items()}


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    r"""The options of a subscription, in the order of psql's ``\dRs+``.

    ``password_required`` and ``run_as_owner`` concern roles. A subscriber has the rights of a
    superuser in its target, for whom PostgreSQL never enforces ``password_required``, so both
    values work.
    """

    connect: bool = field(default=True, metadata=_option(forms=("CREATE",)))
    enabled: bool = field(default=True, metadata=_option(forms=("CREATE",), column=_boolean("subenabled")))
    create_slot: bool = field(default=True, metadata=_option(forms=("CREATE",)))
    slot_name: str | None = field(
        default=None, metadata=_option(read=read_slot_name, column=sa.Column("subslotname", sa.String(63)))
    )
    """None means ``slot_name = NONE``. The default of the command is the subscription's name."""
    copy_data: bool = field(default=True, metadata=_option(forms=("CREATE", "PUBLICATION", "REFRESH")))
    binary: bool = field(
        default=False,
        metadata=_option(
            column=_boolean("subbinary"), since=OPTION_VERSIONS["binary"], streamed=True, heading="Binary"
        ),
    )
    streaming: Literal["off", "on", "parallel"] = field(
        default="parallel",
        metadata=_option(
            read=read_streaming,
            column=_word("substream", 1),
            stored=_STREAM_CODES.__getitem__,
            loaded=_STREAMING.__getitem__,
            streamed=True,
            heading="Streaming",
        ),
    )
    """``parallel`` gives the same result as ``on``: in both cases transactions are applied in
    commit order.
    """
    two_phase: bool = field(
        default=False,
        metadata=_option(
            column=_word("subtwophasestate", 1),
            stored=lambda two_phase: "p" if two_phase else "d",
            loaded=lambda state: state != "d",
            since=OPTION_VERSIONS["two_phase"],
            heading="Two-phase commit",
        ),
    )
    disable_on_error: bool = field(
        default=False, metadata=_option(column=_boolean("subdisableonerr"), restarts=False, heading="Disable on error")
    )
    origin: Literal["any", "none"] = field(
        default="any",
        metadata=_option(
            read=read_origin,
            column=_word("suborigin", 63),
            since=OPTION_VERSIONS["origin"],
            streamed=True,
            heading="Origin",
        ),
    )
    password_required: bool = field(
        default=True, metadata=_option(column=_boolean("subpasswordrequired"), heading="Password required")
    )
    run_as_owner: bool = field(
        default=False, metadata=_option(column=_boolean("subrunasowner"), restarts=False, heading="Run as owner?")
    )
    failover: bool = field(
        default=False,
        metadata=_option(column=_boolean("subfailover"), since=OPTION_VERSIONS["failover"], heading="Failover"),
    )
    retain_dead_tuples: bool = field(
        default=False,
        metadata=_option(
            column=_boolean("subretaindeadtuples", server_default=sa.false()),
            heading="Retain dead tuples",
            shown_since=19,
        ),
    )
    """Deleted rows are recorded, and an UPDATE of such a row is a conflict ``update_deleted``
    (:mod:`subscriber.catalog.deleted_rows`).
    """
    max_retention_duration: int = field(
        default=0,
        metadata=_option(
            read=read_retention,
            column=sa.Column("submaxretention", sa.Integer, nullable=False, server_default="0"),
            restarts=False,
            heading="Max retention duration",
            shown_since=19,
        ),
    )
    """For how many milliseconds changes may be behind before deleted rows are no longer recorded;
    0 is no limit.
    """
    synchronous_commit: str = field(
        default="off",
        metadata=_option(
            read=read_synchronous_commit,
            column=_word("subsynccommit", 32),
            restarts=False,
            heading="Synchronous commit",
        ),
    )
    """PostgreSQL's setting for the transactions that apply; the commits of other targets are always
    durable.
    """

    wal_receiver_timeout: str = field(
        default=INHERITED,
        metadata=_option(
            read=read_receiver_timeout,
            column=_word("subwalrcvtimeout", 64, server_default=INHERITED),
            heading="Receiver timeout",
            shown_since=19,
        ),
    )
    """As it is written; -1 means the setting. See :func:`receiver_timeout`."""

    # Not in PostgreSQL:
    create_tables: bool = field(
        default=False, metadata=_option(column=_boolean("subcreatetables", server_default=sa.false()))
    )
    """Create the tables that are missing in the target, from the publisher's tables."""
    carrier: str | None = field(
        default=None, metadata=_option(forms=("CREATE",), read=read_carrier, column=sa.Column("subcarrier", TEXT))
    )
    """A publication of the server that sends everything. The publications that PUBLICATION names
    are then emulated publications.
    """
    map: RelationNames = field(
        default=SAME_NAMES,
        metadata=_option(
            read=lambda name, value: parse_names(option_list.read_text(name, value)),
            column=_rules("submap"),
            stored=lambda names: str(names) or None,
            loaded=lambda text: parse_names(text or ""),
        ),
    )
    """The names of the publisher's tables and schemas in the target."""
    schema_changes: Literal["stop", "add_columns"] = field(
        default="stop",
        metadata=_option(
            read=one_of(("stop", "add_columns")), column=_word("subschemachanges", 16, server_default="stop")
        ),
    )
    """What happens if the target's table lacks a column that the publisher's table has.
    PostgreSQL's behavior is ``stop``.
    """
    log_conflict_values: bool = field(
        default=False,
        metadata=_option(column=_boolean("sublogconflictvalues", server_default=sa.false()), restarts=False),
    )
    """Conflicts are logged and stored with keys and rows, as PostgreSQL logs them, instead of with
    names only.
    """
    conflict_log_destination: Literal["log", "table", "all"] = field(
        default="all",
        metadata=_option(
            read=one_of(("log", "table", "all"), 'Valid values are "log", "table", and "all".'),
            column=_word("subconflictlogdest", 8, server_default="all"),
            restarts=False,
        ),
    )
    """Whether conflicts go to the log, to ``subscriber_conflict``, or to both. PostgreSQL has the
    option since 20, with the default ``log``.
    """
    unrepresentable_values: ValueRules = field(
        default=STOP,
        metadata=_option(
            read=lambda name, value: parse_value_rules(option_list.read_text(name, value)),
            column=_rules("subunrepresentable"),
            stored=lambda rules: None if rules == STOP else str(rules),
            loaded=lambda text: STOP if text is None else parse_value_rules(text),
        ),
    )
    """Where NULL takes the place of values that the target cannot hold. By default the subscription
    stops at such a value.
    """
    history: History = field(
        default="off",
        metadata=_option(forms=("CREATE",), read=one_of(MODES), column=_word("subhistory", 16, server_default="off")),
    )
    """Whether tables of the target get a row for each change, or keep the versions of rows, in
    place of the publisher's rows.
    """
    history_tables: tuple[tuple[TableName, History], ...] = field(
        default=(),
        metadata=_option(
            forms=("CREATE",),
            read=lambda name, value: parse_history_tables(option_list.read_text(name, value)),
            column=_rules("subhistorytables"),
            stored=lambda tables: history_tables_text(tables) or None,
            loaded=lambda text: parse_history_tables(text or ""),
        ),
    )
    """The tables for which the option ``history`` has another value."""
    conflict_resolvers: ConflictResolvers = field(
        default=NO_RESOLVERS,
        metadata=_option(
            forms=(),
            column=_rules("subconflictresolvers"),
            stored=lambda resolvers: str(resolvers) or None,
            loaded=stored_resolvers,
            restarts=False,
        ),
    )
    """What happens at conflicts; commands have a clause for it, CONFLICT RESOLVER."""
    transform: TransformRules = field(
        default=NO_TRANSFORMS,
        metadata=_option(
            read=lambda name, value: parse_transforms(option_list.read_text(name, value)),
            column=_rules("subtransform"),
            stored=lambda rules: str(rules) or None,
            loaded=lambda text: parse_transforms(text or ""),
        ),
    )
    """The columns that have other values in the target."""
    parallel_apply: int = field(
        default=1,
        metadata=_option(
            read=read_writers, column=sa.Column("subparallelapply", sa.Integer, nullable=False, server_default="1")
        ),
    )
    """How many connections of the target write at a time (:mod:`subscriber.apply.parallel`)."""

    @property
    def history_rules(self) -> HistoryRules:
        return HistoryRules(self.history, self.history_tables)

    def shape(self, table: PublisherTable) -> PublisherTable:
        """The table that ``create_tables`` creates. NotSupportedError: the target can have none."""
        return self.transform.shape(self.history_rules.shape(table))


OPTIONS: Final[Mapping[str, OptionDescriptor]] = {
    one.name: replace(one.metadata["option"], default=one.default) for one in fields(SubscriptionOptions)
}
"""The options of subscriptions, by name."""

_OF_COMMANDS: Final[Mapping[str, OptionDescriptor]] = {
    "refresh": OptionDescriptor(forms=("PUBLICATION",)),
    "lsn": OptionDescriptor(read=read_skip_lsn, forms=("SKIP",)),
    "system_identifier": OptionDescriptor(read=read_system_identifier, forms=("SET",)),
}
"""What commands take in the place of options. ``system_identifier`` is a step after pg_upgrade."""


def option_values(options: SubscriptionOptions) -> dict[str, Any]:
    """The options by name, in the form that :func:`read_options` returns."""
    return {name: getattr(options, name) for name in OPTIONS}


def to_columns(values: Mapping[str, Any]) -> dict[str, object]:
    """The columns of ``subscriber_subscription`` that store these options."""
    return {
        option.column.name: option.stored(values[name])
        for name, option in OPTIONS.items()
        if option.column is not None and name in values
    }


def from_columns(row: Mapping[str, Any]) -> SubscriptionOptions:
    """The stored options; the steps of CREATE SUBSCRIPTION (copy, create slot) are over."""
    stored: dict[str, Any] = {
        name: option.loaded(row[option.column.name]) for name, option in OPTIONS.items() if option.column is not None
    }
    return SubscriptionOptions(create_slot=False, copy_data=False, **stored)


def receiver_timeout(options: SubscriptionOptions, inherited: float) -> float:
    """The ``wal_receiver_timeout`` of a subscription in seconds; ``inherited`` is the setting."""
    seconds = parse_receiver_timeout(options.wal_receiver_timeout)
    return inherited if seconds is None or seconds < 0 else seconds


# Commands -----------------------------------------------------------------------------------------

NOTHING_GIVEN: Final = option_list.OptionList()


def parse_options(
    given: option_list.OptionList, default_slot_name: str, resolvers: option_list.OptionList = NOTHING_GIVEN
) -> SubscriptionOptions:
    """Read and check the WITH list of CREATE SUBSCRIPTION, also for combinations (C54, 42601), and
    the list of its CONFLICT RESOLVER.
    """
    values = read_options(given, "CREATE")
    _check_connect(values)
    _check_slot_name(values)
    values["conflict_resolvers"] = NO_RESOLVERS.altered(read_resolvers(resolvers))
    check_combinations(SubscriptionOptions(**values))
    if values.get("connect") is False:
        values = {"enabled": False, "create_slot": False, "copy_data": False} | values
    return SubscriptionOptions(**{"slot_name": default_slot_name} | values)


def read_options(given: option_list.OptionList, form: Form) -> dict[str, Any]:
    """Those options that were given to one form of a command, by name. SQLSyntaxError: 42601 for an
    unknown, repeated or malformed option; 42602 and 42622 for a slot name. UsageError: 22023 for a
    value that is not in an enumeration, 22P02 for an LSN.
    """
    known = {name: option.read for name, option in {**OPTIONS, **_OF_COMMANDS}.items() if form in option.forms}
    return option_list.read_given(given.sql, given.given, known, "subscription")


def _check_connect(values: Mapping[str, Any]) -> None:
    if values.get("connect") is False:
        for other in ("enabled", "create_slot", "copy_data"):
            if values.get(other):
                raise SQLSyntaxError(f"connect = false and {other} = true are mutually exclusive options")


def check_combinations(options: SubscriptionOptions) -> None:
    """Refuse (42601) what a table with a history cannot obey, and resolvers that other options
    exclude.
    """
    has_history = options.history_rules.any
    check_resolvers(options.conflict_resolvers, two_phase=options.two_phase, history=has_history)
    for other in ("two_phase", "retain_dead_tuples"):
        if has_history and getattr(options, other):
            name = "history_tables" if options.history == "off" else "history"
            reason = _WHY_NO_HISTORY[other]
            raise SQLSyntaxError(f"{name} and {other} = true are mutually exclusive options", detail=reason)
    if options.transform.columns and options.schema_changes == "add_columns":
        raise SQLSyntaxError(
            "transform and schema_changes = add_columns are mutually exclusive options",
            detail="A column that is added or renamed at the publisher would arrive with the publisher's values.",
        )


_WHY_NO_HISTORY: Final = {
    "two_phase": "The LSN and the time of a commit are not known when the changes of a prepared transaction are applied.",
    "retain_dead_tuples": "A table with a history has no rows that changes delete.",
}


def _check_slot_name(values: Mapping[str, Any]) -> None:
    if "slot_name" not in values or values["slot_name"] is not None:
        return
    for other in ("enabled", "create_slot"):
        if values.get(other):
            raise SQLSyntaxError(f"slot_name = NONE and {other} = true are mutually exclusive options")
        if other not in values and values.get("connect", True):
            raise SQLSyntaxError(f"subscription with slot_name = NONE must also set {other} = false")
