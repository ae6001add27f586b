"""The statements that a session on a target cannot run.

They are refused because their result would describe the session's database and not the subscriber.
Refused are the catalogs and functions of replication that
:mod:`subscriber.scenario.nodes.session_catalogs` does not provide. With a mirror, these are refused
too: statistics and WAL functions, triggers that fire for replicated rows, prepared transactions,
and two transactions at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.errors import NotSupportedError
from subscriber.scenario.nodes import session_catalogs

_OURS: Final = frozenset({"subscription", "publication"})
_VERBS: Final = frozenset({"create", "alter", "drop"})
_ABOUT: Final = frozenset({"comment", "security"})

_ENGINES: Final = re.compile(
    r"\bpg_(?:subscription|publication|replication_|stat_|logical_|prepared_xact|current_wal|current_xact_id"
    r"|get_publication|show_replication_|xact_commit_timestamp|last_committed_xact)\w*",
    re.IGNORECASE,
)
"""The catalogs and functions that would describe the replication of the session's database."""
_OF_THE_TARGET: Final = frozenset({session_catalogs.PREPARED, "pg_current_wal_lsn", "pg_current_xact_id"})
"""The catalogs and functions whose results are correct if the session runs in the target itself."""
_HARMLESS: Final = frozenset({"pg_stat_clear_snapshot"})
"""Functions without an effect here: every statement sees the current statistics."""
_PREPARE: Final = ("prepare", "transaction")
_PREPARED: Final = (_PREPARE, ("commit", "prepared"), ("rollback", "prepared"))
_ENDS: Final = frozenset({"commit", "end", "rollback", "abort"})


@dataclass(frozen=True)
class Situation:
    """The database and the transactions that a statement would run in.

    Attributes:
        in_target: the statement runs in the target itself, and not in a mirror.
        in_transaction: the session has an open transaction.
        beside_another: another session has an open transaction.
        after_subscription_command: the open transaction contains a subscription command.
        is_stale: returns whether rows have been replicated that the open transaction does not see.
    """

    in_target: bool
    in_transaction: bool
    beside_another: bool
    after_subscription_command: bool
    is_stale: Callable[[], bool]


def is_subscription_command(words: Sequence[str]) -> bool:
    """Whether the statement is CREATE, ALTER or DROP of a subscription or publication.

    The node runs these commands itself.
    """
    return len(words) > 1 and words[0] in _VERBS and words[1] in _OURS


def check_statement(text: str, words: Sequence[str], situation: Situation) -> frozenset[str]:
    """Refuse a statement that would have a wrong result or effect.

    Args:
        text: the statement.
        words: its unquoted words, in lower case.
        situation: the database and the transactions that it would run in.

    Returns:
        The catalogs from :data:`session_catalogs.ANSWERED` that the statement names.

    Raises:
        NotSupportedError: the statement is refused.
    """
    first = words[0] if words else ""
    named = {name.lower(): name for name in _ENGINES.findall(text)}
    true = _HARMLESS | _OF_THE_TARGET if situation.in_target else _HARMLESS
    for name in sorted(named.keys() - true - session_catalogs.ANSWERED):
        raise refusal(named[name])
    asked = (session_catalogs.ANSWERED - true) & named.keys()
    if asked and not session_catalogs.can_ask(first, text):
        raise refusal(named[min(asked)])
    if first in _ABOUT and _OURS & set(words):
        raise refusal(f"{first.upper()} ON a subscription or publication")
    if not situation.in_target:
        _check_mirrored(words, beside_another=situation.beside_another)
    if situation.in_transaction and first and first not in _ENDS and situation.is_stale():
        raise refusal("a statement in a transaction during which rows have been replicated")
    if situation.after_subscription_command:
        if first in _ENDS and {"to", "chain"} & set(words):
            raise refusal(f"{' '.join(words).upper()} after a subscription command")
        if tuple(words[:2]) == _PREPARE:
            raise refusal("PREPARE TRANSACTION after a subscription command")
    return asked


def _check_mirrored(words: Sequence[str], *, beside_another: bool) -> None:
    """Refuse statements that a mirror cannot support.

    The target could not have their effect, or would see it too late.
    """
    if tuple(words[:2]) in _PREPARED:
        raise refusal(" ".join(words[:2]).upper())
    if _enables_for_replica(words):
        raise refusal("a trigger or rule that fires for replicated rows")
    if beside_another:
        raise refusal("a statement beside another session's open transaction")


def _enables_for_replica(words: Sequence[str]) -> bool:
    """Whether the statement contains ENABLE REPLICA or ENABLE ALWAYS for a TRIGGER or RULE."""
    return any(
        first == "enable" and second in ("replica", "always") and third in ("trigger", "rule")
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


def refusal(what: str) -> NotSupportedError:
    """The error for a statement that is refused."""
    return NotSupportedError(
        f"{what} is not supported on this subscriber",
        detail="The session's statements run in a PostgreSQL database that is not the subscriber here.",
    )
