"""The options of ``format("pgoutput")``, read and checked in one place. Their names are Spark's
where Spark has one (``Changelog`` and Delta's change data feed). docs/spark.md says what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
LATEST: Final = "latest"

RAW_OPTIONS: Final = ("journal", "startingLsn", "maxBytes", "partitionBytes", "twoPhase")
FEED_OPTIONS: Final = (
    "journal", "table", "startingVersion", "startingBoundInclusive", "startingLsn", "computeUpdates", "keyChanges",
    "truncate", "unsupportedValues", "maxBytesPerTrigger", "maxBytes", "partitionBytes",
)  # fmt: skip
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
class FeedOptions:
    """The options of the typed feed.

    Attributes:
        start: changes with a greater end LSN are read; None for the journal's beginning,
            ``latest`` for its end.
        compute_updates: an update is a preimage and a postimage; otherwise a delete and an insert.
        split_key_changes: an update that changes the key is a delete and an insert.
        truncate: ``error``, ``event`` or ``ignore``.
    """

    journal: str
    table: TableName
    start: LSN | str | None
    compute_updates: bool
    split_key_changes: bool
    truncate: str
    unsupported: OnUnsupported
    max_bytes: int
    partition_bytes: int


def is_typed(options: Mapping[str, str]) -> bool:
    """Whether the options ask for the typed feed, and not for the raw one."""
    return "table" in {name.lower() for name in options}


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
    given.exclusive("startingVersion", "startingLsn")
    given.exclusive("maxBytesPerTrigger", "maxBytes")
    return FeedOptions(
        journal=given.journal(),
        table=given.table("table"),
        start=given.start(),
        compute_updates=given.flag("computeUpdates", default=True),
        split_key_changes=given.choice("keyChanges", ("update", "deleteInsert")) == "deleteInsert",
        truncate=given.choice("truncate", ("error", "event", "ignore")),
        unsupported=OnUnsupported(given.choice("unsupportedValues", tuple(OnUnsupported))),
        max_bytes=given.size("maxBytesPerTrigger", given.size("maxBytes", MAX_BYTES)),
        partition_bytes=given.size("partitionBytes", PARTITION_BYTES),
    )


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

    def start(self) -> LSN | str | None:
        """See :attr:`FeedOptions.start`."""
        version = self.text("startingVersion")
        inclusive = self.flag("startingBoundInclusive", default=True)
        if version is None:
            return self.lsn("startingLsn")
        if version.lower() == LATEST:
            return LATEST
        number = self._number("startingVersion", version, 0, 'Give a _commit_version, or "latest".')
        return LSN(max(number - inclusive, 0))

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

    def _number(self, name: str, text: str, least: int, hint: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= parse_int(text) <= _LARGEST):
            self._refuse(name, text, hint)
        return parse_int(text)

    def _refuse(self, name: str, text: str, hint: str) -> NoReturn:
        raise UsageError(f'invalid value for option "{name}": "{text}"', sqlstate="22023", hint=hint)
