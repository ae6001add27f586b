"""Every setting of the package: its unit, its default and the reason for the default.

Settings are read from the environment only (``SUBSCRIBER_`` and the field's name in capitals), so
that every process of a run - supervisor, walreceiver, Spark's executors - reads the same values.
Numbers are written as in ``postgresql.conf``: ``10s``, ``500ms``, ``1min``, ``64MB``, ``64kB``, or
a number without a unit, which is in PostgreSQL's base unit of that parameter. Defaults of
parameters that PostgreSQL has too are PostgreSQL's. A value that cannot be read is an error and is
never replaced by the default.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

from subscriber.base.errors import UsageError

PREFIX: Final = "SUBSCRIBER_"
PASSWORD_COMMAND: Final = f"{PREFIX}PASSWORD_COMMAND"
FUNCTION_MODULES: Final = f"{PREFIX}FUNCTION_MODULES"
TRANSFORM_SECRET_FILE: Final = f"{PREFIX}TRANSFORM_SECRET_FILE"
POSTGRESQL_VERSIONS: Final = (18, 19)
"""The versions of PostgreSQL whose subscriber this program can be, the default first."""

KIB: Final = 1024
MIB: Final = 1024 * KIB

_TIME_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_NO_UNITS: Final = {"": 1.0}
_SIZE_UNITS: Final = {"B": 1, "kB": KIB, "MB": MIB, "GB": 1024 * MIB, "TB": 1024 * 1024 * MIB}


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of all settings. Durations are in seconds (float), sizes are in bytes (int)."""

    journal: str
    """Directory or ``pyarrow.fs`` URL below which journals are stored (``SUBSCRIBER_JOURNAL``).

    The default is in the user's data directory and never in a temporary one: what the slot has
    confirmed exists nowhere else (invariant slot_after_disk).
    """

    wal_receiver_timeout: float = 60.0
    """A connection on which nothing arrives for this long is opened again; 0 disables it."""

    wal_receiver_status_interval: float = 10.0
    """The longest time between two status updates to the publisher.

    0 sends them only when it asks. It must be well below its ``wal_sender_timeout`` (60 s).
    """

    wal_retrieve_retry_interval: float = 5.0
    """The longest wait before a change that cannot be applied, or a copy, is tried again.

    Attempts to reach a server wait up to twelve times as long.
    """

    segment_bytes: int = 8 * MIB
    """A journal segment is closed when it reaches this size.

    A segment of a large transaction is one partition of a batch. Spark holds about five copies of
    it on the way to the driver, and twice that while the next one is decoded ahead. So this size
    limits the use of the JVM's heap. A backlog was applied as fast with 8 MB as with 32 MB.
    """

    journal_keep_size: int = 0
    """What is kept after every target has applied it; in MB, as PostgreSQL's ``wal_keep_size``."""

    journal_absent_consumers: int | None = None
    """A named consumer for which more of the journal than this is kept is dropped; None holds all.

    The default never lets a query of Spark lose changes. The disk fills instead, and then the
    publisher's, which both say.
    """

    max_batch_bytes: int = 64 * MIB
    """A batch has at most this many journal bytes, but at least one journal entry.

    A batch is one target transaction, so this bounds its memory (invariant bounded_memory).
    """

    partition_bytes: int = 64 * MIB
    """The size on the publisher's disk of the ranges into which the initial copy splits a table."""

    password_command: str = ""
    """A shell command that prints passwords (:mod:`subscriber.base.password_command`)."""

    transform_secret_file: str = ""
    """The file with the secret of ``transform`` (:mod:`subscriber.base.transform_secret`)."""

    postgresql_version: int = POSTGRESQL_VERSIONS[0]
    """The major version of PostgreSQL whose subscriber this one acts as.

    It decides the words that concern the subscriber: options, catalogs, the texts of errors and
    conflicts, the form of LSNs in them. It also decides those of emulated publications if the
    publisher is older. What concerns the publisher follows the publisher's own version.
    """

    metrics_tables: int = 200
    """So many tables of a subscription have rows of their own in the metrics."""

    function_modules: tuple[str, ...] = ()
    """The Python modules whose functions commands may name; separated by commas.

    None by default, so that whoever may write the catalog cannot choose what a run executes.
    """

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read the settings, with defaults where unset or empty; UsageError (22023) if wrong."""
        env = os.environ if environment is None else environment
        numbers: dict[str, Any] = {name: rule.read(PREFIX + name.upper(), env) for name, rule in _NUMBERS.items()}
        return cls(
            journal=env.get(f"{PREFIX}JOURNAL") or default_journal(env),
            journal_absent_consumers=_absent_consumers(env),
            password_command=env.get(PASSWORD_COMMAND, "").strip(),
            function_modules=tuple(name for one in env.get(FUNCTION_MODULES, "").split(",") if (name := one.strip())),
            transform_secret_file=env.get(TRANSFORM_SECRET_FILE, ""),
            postgresql_version=_postgresql_version(env),
            **{name: value for name, value in numbers.items() if value is not None},
        )


def _postgresql_version(environment: Mapping[str, str]) -> int:
    variable = f"{PREFIX}POSTGRESQL_VERSION"
    text = environment.get(variable, "").strip()
    if not text:
        return POSTGRESQL_VERSIONS[0]
    for version in POSTGRESQL_VERSIONS:
        if text == str(version):
            return version
    raise UsageError(
        f'invalid value for parameter "{variable}": "{text}"',
        hint=f"Available values: {', '.join(map(str, POSTGRESQL_VERSIONS))}.",
    )


def _absent_consumers(environment: Mapping[str, str]) -> int | None:
    variable = f"{PREFIX}JOURNAL_ABSENT_CONSUMERS"
    action, _, size = environment.get(variable, "").strip().partition(" ")
    if action in ("", "hold") and not size:
        return None
    if action == "drop" and size:
        return cast("int", _KEPT_FOR_ABSENT.read(variable, {variable: size}))
    raise UsageError(
        f'invalid value for parameter "{variable}": "{environment[variable]}"',
        hint='Available values: "hold", and "drop" with a size, such as "drop 10GB".',
    )


def default_journal(environment: Mapping[str, str], platform: str = sys.platform) -> str:
    """The place of journals in the user's data directory.

    It is ``$XDG_DATA_HOME/subscriber/journal`` (``~/.local/share`` when the variable is unset or
    relative), and on macOS ``~/Library/Application Support/subscriber/journal``.
    """
    home = Path(environment.get("HOME") or Path.home())
    if platform == "darwin":
        data = home / "Library" / "Application Support"
    else:
        xdg = Path(environment.get("XDG_DATA_HOME") or "")
        data = xdg if xdg.is_absolute() else home / ".local" / "share"
    return str(data / "subscriber" / "journal")


# Duration and size parameters -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Number:
    """How a setting that is a number is written; ``base`` is the unit if none is given."""

    units: Mapping[str, float]
    base: str
    lowest: str
    highest: str

    def read(self, variable: str, environment: Mapping[str, str]) -> float | None:
        """``variable`` in seconds, or in whole bytes; None if it is empty, UsageError if wrong."""
        text = environment.get(variable, "")
        if not text.strip():
            return None
        value = self.parse(text)
        if value is None:
            units = ", ".join(f'"{unit}"' for unit in self.units)
            raise UsageError(
                f'invalid value for parameter "{variable}": "{text}"',
                hint=f"A number with or without a unit is accepted; valid units for this parameter are {units}, "
                f'and "{self.base}" is meant where there is none.'
                if self.base
                else "A number is accepted.",
            )
        lowest, highest = self.parse(self.lowest), self.parse(self.highest)
        assert lowest is not None
        assert highest is not None
        if not lowest <= value <= highest:
            raise UsageError(
                f'{text.strip()} is outside the valid range for parameter "{variable}" '
                f"({self.lowest} .. {self.highest})"
            )
        return value if self.units is _TIME_UNITS else int(value)

    def parse(self, text: str) -> float | None:
        """``text`` in seconds or bytes; None if it is not valid. The case of units counts."""
        text = text.strip()
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
        factor = self.units.get(text[len(digits) :] or self.base)
        number = digits.strip()
        whole = number.removeprefix("-").replace(".", "", 1)
        if factor is None or not (whole.isascii() and whole.isdigit()):
            return None
        return float(number) * factor


_NUMBERS: Final[Mapping[str, _Number]] = {
    "wal_receiver_timeout": _Number(_TIME_UNITS, "ms", "0", "2147483647ms"),
    "wal_receiver_status_interval": _Number(_TIME_UNITS, "s", "0", "2147483s"),
    "wal_retrieve_retry_interval": _Number(_TIME_UNITS, "ms", "1ms", "2147483647ms"),
    "segment_bytes": _Number(_SIZE_UNITS, "B", "1kB", "1GB"),
    "journal_keep_size": _Number(_SIZE_UNITS, "MB", "0", "1024TB"),
    "max_batch_bytes": _Number(_SIZE_UNITS, "B", "1kB", "1TB"),
    "metrics_tables": _Number(_NO_UNITS, "", "0", "100000"),
    "partition_bytes": _Number(_SIZE_UNITS, "B", "1kB", "1GB"),
}


_KEPT_FOR_ABSENT: Final = _Number(_SIZE_UNITS, "MB", "1MB", "1024TB")

parse_receiver_timeout: Final = _NUMBERS["wal_receiver_timeout"].parse
"""Read a ``wal_receiver_timeout`` as it is written in ``postgresql.conf``: seconds, or None."""


# Connection strings -------------------------------------------------------------------------------

UNREADABLE_CONNINFO: Final = "(a connection string that cannot be read)"

_SECRETS: Final = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)  # libpq 18's keywords whose value is a secret


def redact_conninfo(conninfo: str) -> str:
    """``conninfo`` without its password and other secrets, for messages, logs and status output.

    Both forms of connection string keep the text of all other parameters. A string that libpq could
    not parse is replaced by :data:`UNREADABLE_CONNINFO`, since a secret may be anywhere in it
    (names_are_data).

    >>> redact_conninfo("host=h password='a b' dbname=d")
    'host=h dbname=d'
    >>> redact_conninfo("postgresql://me:secret@h/d?sslmode=require")
    'postgresql://me@h/d?sslmode=require'
    """
    for scheme in ("postgresql://", "postgres://"):
        if conninfo.startswith(scheme):
            rest = _redact_uri(conninfo[len(scheme) :])
            return UNREADABLE_CONNINFO if rest is None else scheme + rest
    parameters = _conninfo_parameters(conninfo)
    if parameters is None:
        return UNREADABLE_CONNINFO
    return " ".join(text for keyword, text in parameters if keyword not in _SECRETS)


def _conninfo_parameters(conninfo: str) -> list[tuple[str, str]] | None:
    """Each ``keyword`` with its parameter's text; None when libpq would refuse the string."""
    parameters = []
    position = _skip_space(conninfo, 0)
    while position < len(conninfo):
        start = position
        equals = conninfo.find("=", position)
        keyword = conninfo[start:equals].strip() if equals >= 0 else ""
        if not (keyword.isascii() and keyword.isidentifier()):
            return None
        end = _value_end(conninfo, _skip_space(conninfo, equals + 1))
        if end is None:
            return None
        parameters.append((keyword, conninfo[start:end]))
        position = _skip_space(conninfo, end)
    return parameters


def _value_end(conninfo: str, position: int) -> int | None:
    """The end of the value that starts at ``position``; None when a quote is not closed."""
    quoted = conninfo.startswith("'", position)
    position += quoted
    while position < len(conninfo):
        character = conninfo[position]
        if quoted and character == "'":
            return position + 1
        if not quoted and character.isspace():
            return position
        position += 2 if character == "\\" else 1
    return None if quoted else min(position, len(conninfo))


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _redact_uri(rest: str) -> str | None:
    """The part of a URI after ``://`` without secrets; None when libpq could not parse it."""
    place, _, query = rest.partition("?")
    authority, slash, database = place.partition("/")
    userinfo, at, hosts = authority.rpartition("@")
    # If a password contains an unescaped "/", "?" or "@", the string is split at the wrong place.
    # Then the parts do not look like a host or a database.
    if "@" in database or "@" in userinfo or not all(map(_is_host, hosts.split(","))):
        return None
    kept = [pair for pair in query.split("&") if pair and unquote(pair.partition("=")[0]) not in _SECRETS]
    if not all("=" in pair and unquote(pair.partition("=")[0]).isidentifier() for pair in kept):
        return None
    shown = userinfo.partition(":")[0] + at + hosts + slash + database
    return f"{shown}?{'&'.join(kept)}" if kept else shown


def _is_host(host: str) -> bool:
    """``name``, ``name:port``, ``[address]`` or ``[address]:port``; the name may be empty."""
    if host.startswith("["):
        _, bracket, tail = host.partition("]")
        return bool(bracket) and (not tail or (tail[0] == ":" and tail[1:].isdigit()))
    port = host.partition(":")[2]
    return not port or port.isdigit()
