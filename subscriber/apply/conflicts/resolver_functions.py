"""Conflict resolvers in Python: ``CONFLICT RESOLVER (insert_exists = 'package.module:function')``.

A function gets the two rows of a conflict, and says what to do::

    def newer(conflict):
        if conflict.local["version"] > conflict.remote["version"]:
            return "keep"
        return {**conflict.remote, "note": conflict.local["note"]}

It is called in the transaction that applies the change, and again whenever the batch is tried
again. So it should depend on its argument only, and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final

from subscriber.base.errors import ConflictResolverError, UsageError
from subscriber.base.imported_functions import catalog_function, raised_in
from subscriber.base.settings import Settings

RowAsTexts = Mapping[str, str | None]
"""The values of a row by column, as texts in PostgreSQL's output form; None is NULL."""

_ANSWERS: Final = ("apply", "keep", "error")
_RETURNS: Final = "It returns 'apply', 'keep', 'error', or a row: a dict of texts by column."


@dataclass(frozen=True, slots=True)
class RowsInConflict:
    """A conflict, as a resolver gets it.

    Attributes:
        conflict_type: such as ``insert_exists``.
        relation: schema and name of the target's table.
        remote: the publisher's row; None for DELETE. If the target's row is missing, values that
            were not sent are missing here, too.
        local: the target's row: the one in the way, or the one to be changed; None if it is
            missing.
        commit_time: that of the publisher's transaction.
        local_commit_time: that of the transaction that wrote ``local``; None if it is not known.
    """

    conflict_type: str
    relation: str
    remote: RowAsTexts | None
    local: RowAsTexts | None
    commit_time: datetime
    local_commit_time: datetime | None


def ask_resolver(place: str, rows: RowsInConflict) -> str | RowAsTexts:
    """The answer of the function ``package.module:function``. ConflictResolverError: it cannot be
    imported, raised an exception, or returned something else.
    """
    try:
        answer: Any = _function(place)(rows)
    except UsageError as error:
        raise ConflictResolverError(error.message, detail=error.detail, hint=error.hint) from None
    except Exception as error:
        raise ConflictResolverError(
            f'the conflict resolver "{place}" failed: {type(error).__name__}',
            detail=f"It was raised in {raised_in(error)}.",
            hint="Fix the function and start `subscriber run` again: the change is tried again.",
        ) from None
    if isinstance(answer, str) and answer in _ANSWERS:
        return answer
    if isinstance(answer, Mapping) and all(
        isinstance(name, str) and (value is None or isinstance(value, str)) for name, value in answer.items()
    ):
        return dict(answer)
    raise wrong_answer(place, f"a value of type {type(answer).__name__}")


def wrong_answer(place: str, what: str) -> ConflictResolverError:
    return ConflictResolverError(f'the conflict resolver "{place}" returned {what}', hint=_RETURNS)


@cache
def _function(place: str) -> Any:
    return catalog_function(place, "conflict resolver", Settings.from_environment())
