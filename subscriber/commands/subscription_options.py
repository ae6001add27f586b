"""The options of subscriptions in commands, with PostgreSQL 18's checks and error texts (C53, C54).

Their names and defaults are those of :class:`SubscriptionOptions`. An option passes three checks,
in PostgreSQL's order. First each option is *read*: its value must be of the right kind. Then all
options together are *checked*: none may exclude another. Then an option that the publisher or the
target does not support is *refused by name* (:mod:`subscriber.commands.requirements`). No given
option is ignored (refuse_not_guess). Each form of a command accepts some of the options; the others
are unrecognized there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from subscriber.catalog.subscription_options import Streaming, SubscriptionOptions
from subscriber.errors import SQLSyntaxError, UsageError
from subscriber.lsn import INVALID_LSN, LSN, parse_lsn
from subscriber.schema.relation_names import RelationNames, parse_names
from subscriber.schema.value_rules import ValueRules, parse_value_rules
from subscriber.sql.lexer import fold
from subscriber.sql.option_list import (
    Option,
    OptionReader,
    OptionValue,
    as_boolean,
    read_boolean,
    read_given,
    read_text,
)

ALTERABLE: Final = frozenset(
    {
        *("slot_name", "synchronous_commit", "binary", "streaming", "two_phase", "disable_on_error"),
        *("password_required", "run_as_owner", "failover", "origin", "create_tables", "map", "schema_changes"),
        *("log_conflict_values", "unrepresentable_values", "system_identifier"),
    }
)
"""The options of ALTER SUBSCRIPTION … SET (…). ``system_identifier`` is not a stored option, but a
step after pg_upgrade.
"""
REFRESHING: Final = frozenset({"copy_data", "refresh"})
"""The options of ALTER SUBSCRIPTION … SET, ADD and DROP PUBLICATION."""
SKIPPING: Final = frozenset({"lsn"})
"""The options of ALTER SUBSCRIPTION … SKIP."""


def parse_options(sql: str, given: Sequence[Option], default_slot_name: str) -> SubscriptionOptions:
    """Read and check the WITH list of CREATE SUBSCRIPTION.

    Args:
        sql: the command, for positions in errors.
        given: the list as written.
        default_slot_name: the name of the subscription.

    Raises:
        SQLSyntaxError: 42601 for an unknown, repeated or malformed option and for combinations that
            C54 forbids; 42602 and 42622 for a slot name.
        UsageError: 22023 for a value that is not in an enumeration.
    """
    values = read_options(sql, given, _CREATABLE)
    _check_connect(values)
    _check_slot_name(values)
    if values.get("connect") is False:
        values = {"enabled": False, "create_slot": False, "copy_data": False} | values
    return SubscriptionOptions(**{"slot_name": default_slot_name} | values)


def read_options(sql: str, given: Sequence[Option], known: frozenset[str]) -> dict[str, Any]:
    """Read a list of options by their names. The result has only the options that were given.

    Args:
        sql: the command, for positions in errors.
        given: the list as written.
        known: the options of this form of the command.

    Raises:
        SQLSyntaxError: 42601 for an unknown, repeated or malformed option; 42602 and 42622 for a
            slot name.
        UsageError: 22023 for a value that is not in an enumeration, 22P02 for an LSN.
    """
    return read_given(sql, given, {name: _READERS[name] for name in known}, "subscription")


# Values -----------------------------------------------------------------------------------------


def _streaming(name: str, value: OptionValue) -> Streaming:
    found = as_boolean(value)
    if found is not None:
        return "on" if found else "off"
    if isinstance(value, str) and fold(value) == "parallel":
        return "parallel"
    raise SQLSyntaxError(f'{name} requires a Boolean value or "parallel"')


def _slot_name(name: str, value: OptionValue) -> str | None:
    slot = read_text(name, value)
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
    return slot


def _origin(name: str, value: OptionValue) -> str:
    origin = read_text(name, value)
    if fold(origin) not in ("any", "none"):
        raise UsageError(f'unrecognized origin value: "{origin}"')
    return fold(origin)


def _synchronous_commit(name: str, value: OptionValue) -> str:
    text = read_text(name, value)
    found = _SYNCHRONOUS_COMMIT.get(fold(text))
    if found is None:
        raise UsageError(
            f'invalid value for parameter "{name}": "{text}"',
            hint="Available values: local, remote_write, remote_apply, on, off.",
        )
    return found


def _carrier(name: str, value: OptionValue) -> str:
    carrier = read_text(name, value)
    if not carrier:
        raise SQLSyntaxError(f"{name} requires the name of a publication")
    return carrier


def _map(name: str, value: OptionValue) -> RelationNames:
    return parse_names(read_text(name, value))


def _unrepresentable_values(name: str, value: OptionValue) -> ValueRules:
    return parse_value_rules(read_text(name, value))


def _schema_changes(name: str, value: OptionValue) -> str:
    text = read_text(name, value)
    if fold(text) not in ("stop", "add_columns"):
        raise UsageError(f'unrecognized {name} value: "{text}"', hint="Available values: stop, add_columns.")
    return fold(text)


def _system_identifier(name: str, value: OptionValue) -> str:
    identifier = read_text(name, value)
    if not (identifier.isascii() and identifier.isdigit()):
        raise UsageError(
            f'invalid value for parameter "{name}": "{identifier}"',
            hint="Give the number that SELECT system_identifier FROM pg_control_system() returns at the publisher.",
        )
    return identifier


def _lsn(name: str, value: OptionValue) -> LSN:
    """The LSN to skip; ``NONE`` means 0/0."""
    text = read_text(name, value)
    if text == "none":
        return INVALID_LSN
    lsn = parse_lsn(text)
    if lsn == INVALID_LSN:
        raise UsageError(f"invalid WAL location (LSN): {text}")
    return lsn


_NAME_BYTES: Final = 63  # NAMEDATALEN - 1

_SYNCHRONOUS_COMMIT: Final[Mapping[str, str]] = {
    **{value: value for value in ("local", "remote_write", "remote_apply", "on", "off")},
    **dict.fromkeys(("true", "yes", "1"), "on"),
    **dict.fromkeys(("false", "no", "0"), "off"),
}

_READERS: Final[Mapping[str, OptionReader]] = {
    **{option.name: read_boolean for option in fields(SubscriptionOptions)},
    "refresh": read_boolean,
    "lsn": _lsn,
    "slot_name": _slot_name,
    "streaming": _streaming,
    "origin": _origin,
    "synchronous_commit": _synchronous_commit,
    "carrier": _carrier,
    "map": _map,
    "schema_changes": _schema_changes,
    "unrepresentable_values": _unrepresentable_values,
    "system_identifier": _system_identifier,
}


_CREATABLE: Final = frozenset(option.name for option in fields(SubscriptionOptions))


# Combinations (C54) -------------------------------------------------------------------------------


def _check_connect(values: Mapping[str, Any]) -> None:
    if values.get("connect") is False:
        for other in ("enabled", "create_slot", "copy_data"):
            if values.get(other):
                raise SQLSyntaxError(f"connect = false and {other} = true are mutually exclusive options")


def _check_slot_name(values: Mapping[str, Any]) -> None:
    if "slot_name" not in values or values["slot_name"] is not None:
        return
    for other in ("enabled", "create_slot"):
        if values.get(other):
            raise SQLSyntaxError(f"slot_name = NONE and {other} = true are mutually exclusive options")
        if other not in values and values.get("connect", True):
            raise SQLSyntaxError(f"subscription with slot_name = NONE must also set {other} = false")
