"""What a session on our engine may not say, so that no answer of its database is taken for the
subscriber's.

Refused are the catalogs and functions of replication that
:mod:`subscriber.scenario.nodes.session_catalogs` does not answer; with a mirror statistics and WAL,
triggers that fire for replicated rows, prepared transactions, and two transactions at once, too.
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
"""Catalogs and functions that would tell what the session's database does."""
_OF_THE_TARGET: Final = frozenset({session_catalogs.PREPARED, "pg_current_wal_lsn", "pg_current_xact_id"})
"""What tells the truth where the session is in the target itself."""
_HARMLESS: Final = frozenset({"pg_stat_clear_snapshot"})
"""Changes nothing here: every statement sees the statistics as they are."""
_PREPARE: Final = ("prepare", "transaction")
_PREPARED: Final = (_PREPARE, ("commit", "prepared"), ("rollback", "prepared"))
_ENDS: Final = frozenset({"commit", "end", "rollback", "abort"})


@dataclass(frozen=True)
class Situation:
    """Where a statement would run.

    Attributes:
        in_target: in the target itself, and not in its mirror.
        in_transaction: the session has one open.
        beside_another: another session has one open.
        after_subscription_command: there was one in the open transaction.
        is_stale: tells whether rows have been replicated that the open transaction does not see.
    """

    in_target: bool
    in_transaction: bool
    beside_another: bool
    after_subscription_command: bool
    is_stale: Callable[[], bool]


def is_subscription_command(words: Sequence[str]) -> bool:
    """CREATE, ALTER or DROP of a subscription or publication, which is ours to carry out."""
    return len(words) > 1 and words[0] in _VERBS and words[1] in _OURS


def check_statement(text: str, words: Sequence[str], situation: Situation) -> frozenset[str]:
    """Refuse what would have a wrong answer, or effect; tells which of our catalogs are asked for.

    Args:
        text: the statement.
        words: its bare words, folded.
        situation: where it would run.

    Raises:
        NotSupportedError: it is refused.
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
    """Refuse what the target could not have, or would not see in time, from a mirror."""
    if tuple(words[:2]) in _PREPARED:
        raise refusal(" ".join(words[:2]).upper())
    if _enables_for_replica(words):
        raise refusal("a trigger or rule that fires for replicated rows")
    if beside_another:
        raise refusal("a statement beside another session's open transaction")


def _enables_for_replica(words: Sequence[str]) -> bool:
    """ENABLE REPLICA TRIGGER, ENABLE ALWAYS RULE."""
    return any(
        first == "enable" and second in ("replica", "always") and third in ("trigger", "rule")
        for first, second, third in zip(words, words[1:], words[2:], strict=False)
    )


def refusal(what: str) -> NotSupportedError:
    """The error for what is not to be said here."""
    return NotSupportedError(
        f"{what} is not supported on this subscriber",
        detail="The PostgreSQL database that a session's statements run in is not what replicates here.",
    )
