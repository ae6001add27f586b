"""What a subscription does at a conflict: the clause CONFLICT RESOLVER, as it was proposed for
PostgreSQL (pgsql-hackers, "Conflict Detection and Resolution").

::

    (insert_exists = 'apply_remote', update_missing = 'package.module:function')

A resolver that is the default of its conflict type is not stored: it is PostgreSQL's behavior.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.base.suggestions import perhaps
from subscriber.postgres.sql.lexer import fold, syntax_error
from subscriber.postgres.sql.option_list import OptionList, read_text

FUNCTION: Final = "MODULE:FUNCTION"
"""Stands for the name of a Python function in lists of resolvers."""
LAST_UPDATE_WINS: Final = "last_update_wins"

_KEYS: Final = ("error", "apply_remote", "keep_local", LAST_UPDATE_WINS)
_ORIGINS: Final = ("apply_remote", "keep_local", "error", LAST_UPDATE_WINS, FUNCTION)
_MISSING: Final = ("skip", "apply_or_skip", "apply_or_error", "error", FUNCTION)

RESOLVERS: Final[Mapping[str, tuple[str, ...]]] = {
    "insert_exists": (*_KEYS, FUNCTION),
    "update_origin_differs": _ORIGINS,
    "update_exists": (*_KEYS, FUNCTION),
    "update_deleted": _MISSING,
    "update_missing": _MISSING,
    "delete_origin_differs": _ORIGINS,
    "delete_missing": ("skip", "error"),
    "multiple_unique_conflicts": _KEYS,
}
"""The resolvers of each conflict type. The first one is the default: what PostgreSQL does."""
OF_ORIGINS: Final = ("update_origin_differs", "delete_origin_differs")
"""The conflict types that are found by the origin of a row."""

_NAMES: Final = frozenset(name for names in RESOLVERS.values() for name in names) - {FUNCTION}


@dataclass(frozen=True, slots=True)
class ConflictResolvers:
    """The resolvers of a subscription. ``chosen`` has those that are not the default."""

    chosen: tuple[tuple[str, str], ...] = ()

    def of(self, conflict_type: str) -> str:
        """The resolver of a conflict type.

        >>> resolvers = ConflictResolvers().altered({"insert_exists": "keep_local"})
        >>> resolvers.of("insert_exists"), resolvers.of("update_missing")
        ('keep_local', 'skip')
        """
        return dict(self.chosen).get(conflict_type) or RESOLVERS[conflict_type][0]

    def decides(self, conflict_type: str) -> bool:
        """Whether the resolver of a conflict type is not the default."""
        return any(name == conflict_type for name, _ in self.chosen)

    @property
    def functions(self) -> Iterator[str]:
        return (resolver for _, resolver in self.chosen if ":" in resolver)

    @property
    def compares_times(self) -> bool:
        return any(resolver == LAST_UPDATE_WINS for _, resolver in self.chosen)

    @property
    def of_origins(self) -> bool:
        """Whether any of them is for a conflict that is found by the origin of a row."""
        return any(map(self.decides, OF_ORIGINS))

    def altered(self, given: Mapping[str, str]) -> ConflictResolvers:
        """With other resolvers of some conflict types."""
        now = {**dict(self.chosen), **given}
        return ConflictResolvers(
            tuple((name, now[name]) for name, valid in RESOLVERS.items() if now.get(name, valid[0]) != valid[0])
        )

    def reset(self, conflict_type: str) -> ConflictResolvers:
        """With the default of one conflict type."""
        return self.altered({conflict_type: RESOLVERS[conflict_type][0]})

    def __str__(self) -> str:
        return ", ".join(f"{name} = {resolver}" for name, resolver in self.chosen)


NO_RESOLVERS: Final = ConflictResolvers()


@lru_cache(maxsize=64)
def stored_resolvers(text: str | None) -> ConflictResolvers:
    """The resolvers that ``str`` has written."""
    entries = (entry.split(" = ") for entry in (text or "").split(", ") if entry)
    return ConflictResolvers(tuple((name, resolver) for name, resolver in entries))


def read_resolvers(given: OptionList) -> dict[str, str]:
    """The resolvers of a clause by conflict type. UsageError (22023) with the list of valid names,
    in the words of the proposed patch; SQLSyntaxError (42601) for a type that is given twice.
    """
    found: dict[str, str] = {}
    for option in given.given:
        conflict_type = read_conflict_type(option.name)
        if conflict_type in found:
            raise syntax_error(given.sql, option.position, "conflicting or redundant options")
        found[conflict_type] = _resolver(conflict_type, read_text(option.name, option.value))
    return found


def read_conflict_type(name: str) -> str:
    """A conflict type; its letters may be in upper case."""
    if fold(name) in RESOLVERS:
        return fold(name)
    valid = f"Conflict types: {', '.join(RESOLVERS)}."
    raise UsageError(f"{name} is not a valid conflict type", hint=perhaps("conflict type", name, RESOLVERS) or valid)


def _resolver(conflict_type: str, text: str) -> str:
    valid = RESOLVERS[conflict_type]
    hint = f"Resolvers of {conflict_type}: {', '.join(valid)}."
    if _is_function(text):
        if FUNCTION in valid:
            return text
    elif fold(text) in valid:
        return fold(text)
    elif fold(text) not in _NAMES:
        raise UsageError(f"{text} is not a valid conflict resolver", hint=hint)
    raise UsageError(f"{text} is not a valid conflict resolver for conflict type {conflict_type}", hint=hint)


def _is_function(text: str) -> bool:
    module, _, function = text.partition(":")
    return function.isidentifier() and all(part.isidentifier() for part in module.split("."))


# Exclusions ---------------------------------------------------------------------------------------

_NO_TIME: Final = "The time of a commit is not known when the changes of a prepared transaction are applied."
_NO_ROWS: Final = "The rows of a table with a history are the changes, or the versions, of the publisher's rows."


def check_resolvers(resolvers: ConflictResolvers, *, two_phase: bool, history: bool) -> None:
    """Refuse (42601) resolvers that other options of the subscription exclude."""
    if resolvers.compares_times and two_phase:
        raise SQLSyntaxError(f"{LAST_UPDATE_WINS} and two_phase = true are mutually exclusive options", detail=_NO_TIME)
    if resolvers.chosen and history:
        raise SQLSyntaxError("CONFLICT RESOLVER and history are mutually exclusive options", detail=_NO_ROWS)
