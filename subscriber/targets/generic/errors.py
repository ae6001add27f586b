"""Errors of a driver about which nothing is known but its class, its codes, and what the probes
have provoked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import exc
from typing_extensions import override

from subscriber.base.errors import ConflictError, SubscriberError, TargetUnavailable, UnsupportedValue
from subscriber.targets.base.errors import Errors
from subscriber.targets.generic.facts import DatabaseFacts, signature, sqlstate_of

_MESSAGES: Final = {
    "23505": "duplicate key value violates unique constraint",
    "23502": "null value violates not-null constraint",
}
_TRANSIENT: Final = ("08", "40", "53", "55", "57")
"""The classes of SQLSTATE for a lost connection, a deadlock, a missing resource and an operator."""


class GenericErrors(Errors):
    """Recognizes the errors of constraints by their signatures, once the facts are known; others by
    the class of their SQLSTATE, if the driver has one.
    """

    def __init__(self, database: str) -> None:
        super().__init__(database)
        self._constraints: Mapping[str, str] = {}

    def learn(self, facts: DatabaseFacts) -> None:
        null = str(facts["null"])
        duplicates = {str(facts[name]) for name in ("duplicate_key", "duplicate_unique")} - {null}
        self._constraints = {**dict.fromkeys(duplicates, "23505"), null: "23502" if duplicates else "23000"}

    @override
    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        driver = getattr(error, "orig", None)
        known = self._constraints.get(signature(driver)) if driver is not None else None
        if known in _MESSAGES:
            return ConflictError(_MESSAGES[known], sqlstate=known)
        sqlstate = sqlstate_of(driver)
        if sqlstate is not None:
            kind = type(driver).__name__
            if sqlstate.startswith("23"):
                message = f"a constraint of {self.database} forbids the change ({kind})"
                return ConflictError(message, sqlstate="23000")
            if sqlstate.startswith("22"):
                return UnsupportedValue(f"{self.database} cannot hold a value exactly ({kind})", sqlstate=sqlstate)
            if sqlstate.startswith(_TRANSIENT):
                return TargetUnavailable(f"{self.database} is not available ({kind}, SQLSTATE {sqlstate})")
        return super().translate(error, columns)
