"""The options of ``format("pgoutput")``, read and checked in one place. Their names are Spark's
where Spark has one (``Changelog`` and Delta's change data feed). docs/spark.md says what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn

from subscriber.base.digits import parse_int
from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, parse_lsn
from subscriber.base.suggestions import perhaps
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.sql.cursor import Cursor, read_label
from subscriber.spark.feed.spark_types import OnUnsupported

MAX_BYTES: Final = 64 * 1024 * 1024
PARTITION_BYTES: Final = 8 * 1024 * 1024

RAW_OPTIONS: Final = ("journal", "startingLsn", "maxBytes", "partitionBytes", "twoPhase")
FEED_OPTIONS: Final = (
    "journal", "table", "tables", "connection", "publication", "consumer", "startingSnapshot", "startingVersion", "startingTimestamp", "startingBoundInclusive", "startingLsn",
    "endingVersion", "endingTimestamp", "endingBoundInclusive", "deduplicationMode", "keyColumns", "computeUpdates",
    "keyChanges", "truncate", "unsupportedValues", "schemaEvolution", "maxRowsPerTrigger", "maxBytesPerTrigger",
    "maxBytes", "partitionBytes", "emulatedPublications",
)  # fmt: skip
_ONLY_STREAMS: Final = ("consumer", "startingSnapshot", "maxRowsPerTrigger", "maxBytesPerTrigger", "maxBytes")
_ONLY_ONE_TABLE: Final = (
    "connection", "publication", "startingSnapshot", "deduplicationMode", "keyColumns", "keyChanges", "unsupportedValues",
    "schemaEvolution",
)  # fmt: skip
_ONLY_BATCHES: Final = ("endingVersion", "endingTimestamp", "endingBoundInclusive")
_LARGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class RawOptions:
    """The options of the raw feed. ``start`` is None for the journal's beginning."""

    journal: str
    start: LSN | None
    max_bytes: int
    partition_bytes: int
    two_phase: bool


@dataclass(frozen=True, slots=True)
class FeedBound:
    """One end of what is read: a ``_commit_version``, or a time in microseconds since 1970."""

    version: LSN | None = None
    microseconds: int | None = None
    inclusive: bool = True
    latest: bool = False


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options of the typed feed.

    Attributes:
        table: the table whose columns the rows have; None for the feed of several tables.
        tables: the qualified names of several tables; none for all tables of the journal, or of
            ``publications`` if these are given.
        connection: the publisher's connection string, without a password; None if it is not asked.
        publications: those that the journal's receiver has, for the publisher's description and the
            snapshot; None for all columns.
        snapshot: the feed begins with the rows of the table.
        consumer: the name by which the query registers in the journal; None if it does not.
        start: where the feed begins; None for the beginning of the journal.
        end: where a batch read ends; None for what the journal has.
        net_changes: only the net change of each row, in a micro-batch or a batch read.
        key: the columns that identify a row; None for those of the replica identity.
        compute_updates: an update is a preimage and a postimage; otherwise a delete and an insert.
        split_key_changes: an update that changes the key is a delete and an insert.
        truncate: ``error``, ``event`` or ``ignore``.
        evolves: each start of the query takes the columns that were added meanwhile.
        max_rows: the rows of a micro-batch, at most, if it has more than one transaction.
        whole_carrier: emulated publications are ignored.
    """

    journal: str
    table: TableName | None
    tables: tuple[str, ...]
    connection: str | None = field(repr=False)
    publications: tuple[str, ...] | None
    snapshot: bool
    consumer: str | None
    start: FeedBound | None
    end: FeedBound | None
    net_changes: bool
    key: tuple[str, ...] | None
    compute_updates: bool
    split_key_changes: bool
    truncate: str
    unsupported: OnUnsupported
    evolves: bool
    max_rows: int | None
    max_bytes: int
    partition_bytes: int
    whole_carrier: bool = False

    def for_streams(self) -> FeedOptions:
        """These options; UsageError if one of them is for batch reads."""
        if self.end is not None:
            raise UsageError(
                f"{', '.join(_ONLY_BATCHES)} are options of spark.read",
                hint="A stream ends when it is stopped, or with .trigger(availableNow=True).",
            )
        return self

    def for_batches(self) -> FeedOptions:
        """These options; UsageError if one of them is for streams."""
        if self.consumer is not None or self.snapshot or self.max_rows is not None or self.max_bytes != MAX_BYTES:
            raise UsageError(
                f"{', '.join(_ONLY_STREAMS)} are options of spark.readStream", hint="Leave them out of spark.read."
            )
        return self


def is_typed(options: Mapping[str, str]) -> bool:
    """Whether the options ask for the typed feed, and not for the raw one."""
    return not {"table", "tables", "publication"}.isdisjoint(name.lower() for name in options)


def raw_options(options: Mapping[str, str]) -> RawOptions:
    given = _Given(options, RAW_OPTIONS)
    return RawOptions(
        given.journal(),
        given.lsn("startingLsn"),
        given.size("maxBytes", MAX_BYTES),
        given.size("partitionBytes", PARTITION_BYTES),
        given.flag("twoPhase", default=False),
    )


def feed_options(options: Mapping[str, str]) -> FeedOptions:
    """Raises UsageError (22023) for an unknown option, a missing one, and a value that is wrong."""
    given = _Given(options, FEED_OPTIONS)
    given.exclusive("table", "tables")
    if given.text("table") is None:
        several = "publication" if given.text("tables") is None else "tables"
        for name in _ONLY_ONE_TABLE:
            if name != several:
                given.exclusive(several, name)
    given.exclusive("startingVersion", "startingTimestamp", "startingLsn")
    given.exclusive("endingVersion", "endingTimestamp")
    given.exclusive("maxBytesPerTrigger", "maxBytes")
    return FeedOptions(
        journal=given.journal(),
        table=None if given.text("table") is None else given.table("table"),
        tables=given.tables("tables"),
        connection=given.connection(),
        publications=given.columns("publication"),
        snapshot=given.snapshot(),
        consumer=given.text("consumer"),
        start=given.bound("starting"),
        end=given.bound("ending"),
        net_changes=given.choice("deduplicationMode", ("none", "netChanges")) == "netChanges",
        key=given.columns("keyColumns"),
        compute_updates=given.flag("computeUpdates", default=True),
        split_key_changes=given.choice("keyChanges", ("update", "deleteInsert")) == "deleteInsert",
        truncate=given.choice("truncate", ("error", "event", "ignore")),
        unsupported=OnUnsupported(given.choice("unsupportedValues", tuple(OnUnsupported))),
        evolves=given.choice("schemaEvolution", ("none", "addColumns")) == "addColumns",
        max_rows=given.count("maxRowsPerTrigger"),
        max_bytes=given.size("maxBytesPerTrigger", given.size("maxBytes", MAX_BYTES)),
        partition_bytes=given.size("partitionBytes", PARTITION_BYTES),
        whole_carrier=given.choice("emulatedPublications", ("apply", "ignore")) == "ignore",
    )


def microseconds_of(moment: datetime) -> int:
    """A time with a zone, in microseconds since 1970."""
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


class _Given:
    """The options that were given. Spark ignores the case of their names."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._known = known
        names = {name.lower() for name in known}
        for name in options:
            if name.lower() not in names:
                raise UsageError(
                    f'unrecognized option "{name}" of format "pgoutput"',
                    hint=perhaps("option", name, known) or f"The options are {', '.join(known)}.",
                )

    def text(self, name: str) -> str | None:
        return self._options.get(name.lower())

    def exclusive(self, *names: str) -> None:
        given = [name for name in names if self.text(name) is not None]
        if len(given) > 1:
            raise UsageError(f'the options "{given[0]}" and "{given[1]}" exclude each other', hint="Give one of them.")

    def journal(self) -> str:
        url = self.text("journal")
        if not url:
            raise UsageError(
                'format "pgoutput" needs the option "journal"',
                hint="Give the path or URL of one journal; `subscriber journal ls` shows them.",
            )
        return url

    def flag(self, name: str, *, default: bool) -> bool:
        return self.choice(name, ("true", "false") if default else ("false", "true")) == "true"

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices in any case; the first one if the option was not given."""
        text = self.text(name)
        if text is None:
            return choices[0]
        found = next((one for one in choices if one.lower() == text.lower()), None)
        return found or self._refuse(name, text, f"Give {', '.join(choices[:-1])} or {choices[-1]}.")

    def size(self, name: str, default: int) -> int:
        text = self.text(name)
        return default if text is None else self._number(name, text, 1, "Give a number of bytes.")

    def lsn(self, name: str) -> LSN | None:
        text = self.text(name)
        return None if text is None else parse_lsn(text)

    def count(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else self._number(name, text, 1, "Give a number of rows.")

    def bound(self, which: str) -> FeedBound | None:
        """The bound that the options of this prefix give."""
        inclusive = self.flag(f"{which}BoundInclusive", default=True)
        version, moment = self.text(f"{which}Version"), self.text(f"{which}Timestamp")
        if version is not None and version.lower() == "latest" and which == "starting":
            return FeedBound(latest=True)
        if version is not None:
            hint = 'Give a _commit_version, or "latest".' if which == "starting" else "Give a _commit_version."
            return FeedBound(LSN(self._number(f"{which}Version", version, 0, hint)), inclusive=inclusive)
        if moment is not None:
            return FeedBound(microseconds=self._microseconds(f"{which}Timestamp", moment), inclusive=inclusive)
        lsn = self.lsn("startingLsn") if which == "starting" else None
        return None if lsn is None else FeedBound(lsn, inclusive=False)

    def _microseconds(self, name: str, text: str) -> int:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = datetime.min  # noqa: DTZ901 - it is refused, as every time without a zone
        if moment.tzinfo is None:
            self._refuse(name, text, "Give a time with its zone, such as 2026-11-28T20:02:00+00:00.")
        return microseconds_of(moment)

    def connection(self) -> str | None:
        conninfo = self.text("connection")
        if conninfo is None:
            return None
        from subscriber.publisher.conninfo import check_conninfo  # with libpq, which few streams need

        if check_conninfo(conninfo).get("password"):
            raise UsageError(
                'option "connection" must not have a password, because Spark shows the options of a query',
                hint="Put it into a password file (passfile, PGPASSFILE), or set SUBSCRIBER_PASSWORD_COMMAND.",
            )
        return conninfo

    def snapshot(self) -> bool:
        if not self.flag("startingSnapshot", default=False):
            return False
        for name in ("startingVersion", "startingTimestamp", "startingLsn"):
            self.exclusive("startingSnapshot", name)
        for name in ("connection", "publication"):
            if self.text(name) is None:
                raise UsageError(
                    f'option "startingSnapshot" needs the option "{name}"',
                    hint="Give the connection string of the publisher, and the publications that the journal's receiver has.",
                )
        return True

    def columns(self, name: str) -> tuple[str, ...] | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            cursor = Cursor(text)
            names = [read_label(cursor)]
            while cursor.accept(","):
                names.append(read_label(cursor))
            cursor.end()
        except UsageError:
            self._refuse(name, text, "Give names with commas between them, quoted as in SQL.")
        return tuple(names)

    def table(self, name: str) -> TableName:
        text = self.text(name) or ""
        try:
            cursor = Cursor(text)
            first = read_label(cursor)
            second = read_label(cursor) if cursor.accept(".") else None
            cursor.end()
        except UsageError:
            self._refuse(name, text, "Give schema.table, with identifiers quoted as in SQL.")
        return ("public", first) if second is None else (first, second)

    def tables(self, name: str) -> tuple[str, ...]:
        """The qualified names of a list of tables; none for ``*``, which is all."""
        text = self.text(name)
        if text is None or text.strip() == "*":
            return ()
        found = []
        try:
            cursor = Cursor(text)
            while True:
                first = read_label(cursor)
                found.append(f"{first}.{read_label(cursor)}" if cursor.accept(".") else f"public.{first}")
                if not cursor.accept(","):
                    break
            cursor.end()
        except UsageError:
            self._refuse(name, text, "Give schema.table with commas between them, quoted as in SQL, or * for all.")
        return tuple(found)

    def _number(self, name: str, text: str, least: int, hint: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= parse_int(text) <= _LARGEST):
            self._refuse(name, text, hint)
        return parse_int(text)

    def _refuse(self, name: str, text: str, hint: str) -> NoReturn:
        raise UsageError(f'invalid value for option "{name}": "{text}"', sqlstate="22023", hint=hint)
