"""Readers of option values, with PostgreSQL's checks and error texts (C53, C54)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.base.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.base.settings import parse_receiver_timeout
from subscriber.postgres.sql import option_list
from subscriber.postgres.sql.lexer import fold


def read_streaming(name: str, value: option_list.OptionValue) -> str:
    found = option_list.as_boolean(value)
    if found is not None:
        return "on" if found else "off"
    if isinstance(value, str) and fold(value) == "parallel":
        return "parallel"
    raise SQLSyntaxError(f'{name} requires a Boolean value or "parallel"')


def read_slot_name(name: str, value: option_list.OptionValue) -> str | None:
    slot = option_list.read_text(name, value)
    if slot == "none":
        return None
    if not slot:
        raise SQLSyntaxError(f'replication slot name "{slot}" is too short', sqlstate="42602")
    if len(slot.encode()) > _NAME_BYTES:
        raise SQLSyntaxError(f'replication slot name "{slot}" is too long', sqlstate="42622")
    if not all(character in "abcdefghijklmnopqrstuvwxyz0123456789_" for character in slot):
        raise SQLSyntaxError(
            f'replication slot name "{slot}" contains invalid character',
            sqlstate="42602",
            hint="Replication slot names may only contain lower case letters, numbers, and the underscore character.",
        )
    if slot == CONFLICT_SLOT:
        raise UsageError(
            f'replication slot name "{slot}" is reserved',
            sqlstate="42939",
            hint=f'The name "{slot}" is reserved for the conflict detection slot.',
        )
    return slot


_NAME_BYTES: Final = 63  # NAMEDATALEN - 1
CONFLICT_SLOT: Final = "pg_conflict_detection"
"""The slot by which PostgreSQL 19 keeps dead rows for ``retain_dead_tuples``."""


def read_origin(name: str, value: option_list.OptionValue) -> str:
    origin = option_list.read_text(name, value)
    if fold(origin) not in ("any", "none"):
        raise UsageError(f'unrecognized origin value: "{origin}"')
    return fold(origin)


def read_synchronous_commit(name: str, value: option_list.OptionValue) -> str:
    text = option_list.read_text(name, value)
    found = _SYNCHRONOUS_COMMIT.get(fold(text))
    if found is None:
        raise UsageError(
            f'invalid value for parameter "{name}": "{text}"',
            hint="Available values: local, remote_write, remote_apply, on, off.",
        )
    return found


_SYNCHRONOUS_COMMIT: Final[Mapping[str, str]] = {
    **{value: value for value in ("local", "remote_write", "remote_apply", "on", "off")},
    **dict.fromkeys(("true", "yes", "1"), "on"),
    **dict.fromkeys(("false", "no", "0"), "off"),
}


def read_carrier(name: str, value: option_list.OptionValue) -> str:
    carrier = option_list.read_text(name, value)
    if not carrier:
        raise SQLSyntaxError(f"{name} requires the name of a publication")
    return carrier


def one_of(words: Sequence[str], hint: str | None = None) -> option_list.OptionReader:
    def read(name: str, value: option_list.OptionValue) -> str:
        text = option_list.read_text(name, value)
        if fold(text) not in words:
            raise UsageError(
                f'unrecognized {name} value: "{text}"', hint=hint or f"Available values: {', '.join(words)}."
            )
        return fold(text)

    return read


def read_retention(name: str, value: option_list.OptionValue) -> int:
    if not isinstance(value, int):
        raise SQLSyntaxError(f"{name} requires an integer value")
    if value < 0:
        raise UsageError(f"{name} cannot be negative")
    return value


def read_writers(name: str, value: option_list.OptionValue) -> int:
    """At most eight: a target's engine has a limited number of connections."""
    if not isinstance(value, int):
        raise SQLSyntaxError(f"{name} requires an integer value")
    if not 1 <= value <= 8:
        raise UsageError(f'{value} is outside the valid range for parameter "{name}" (1 .. 8)')
    return value


def read_receiver_timeout(name: str, value: option_list.OptionValue) -> str:
    """A value of the setting ``wal_receiver_timeout``, or -1; it is stored as it is written."""
    text = option_list.read_text(name, value)
    if text.strip() == INHERITED:
        return text
    seconds = parse_receiver_timeout(text)
    hint = None
    if seconds is not None and not -_LARGEST_INTEGER <= seconds * 1000 <= _LARGEST_INTEGER:
        hint = "Value exceeds integer range."
    elif seconds is None and text.strip()[:1].isdigit():
        hint = 'Valid units for this parameter are "us", "ms", "s", "min", "h", and "d".'
    if seconds is None or hint is not None:
        raise UsageError(f'invalid value for parameter "{name}": "{text}"', hint=hint)
    if seconds < 0:
        least = round(seconds * 1000)
        raise UsageError(
            f'{least} ms is outside the valid range for parameter "{name}" (0 ms .. {_LARGEST_INTEGER} ms)'
        )
    return text


INHERITED: Final = "-1"
"""The ``wal_receiver_timeout`` of a subscription that has the program's setting."""
_LARGEST_INTEGER: Final = 2**31 - 1


def read_system_identifier(name: str, value: option_list.OptionValue) -> str:
    identifier = option_list.read_text(name, value)
    if not (identifier.isascii() and identifier.isdigit()):
        raise UsageError(
            f'invalid value for parameter "{name}": "{identifier}"',
            hint="Give the number that SELECT system_identifier FROM pg_control_system() returns at the publisher.",
        )
    return identifier


def read_skip_lsn(name: str, value: option_list.OptionValue) -> LSN:
    """The LSN to skip; ``NONE`` means 0/0."""
    text = option_list.read_text(name, value)
    if text == "none":
        return INVALID_LSN
    lsn = parse_lsn(text)
    if lsn == INVALID_LSN:
        raise UsageError(f"invalid WAL location (LSN): {text}")
    return lsn


# Options ------------------------------------------------------------------------------------------
