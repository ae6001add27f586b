"""Translation of the driver's errors to the subscriber's errors.

Drivers quote rows in their messages, and a message of the subscriber must not contain a value
(invariant names_are_data). So the driver's text is discarded, and errors are raised ``from None``:
a printed traceback would show it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from sqlalchemy import exc

from subscriber.base.errors import ConflictError, SubscriberError, TargetError, TargetUnavailable, UnsupportedValue

_CATALOG_WRITE: Final = re.compile(
    r"(?:INSERT INTO|UPDATE|DELETE FROM) (?:[`\"]?\w+[`\"]?\.)?[`\"]?(subscriber_\w+)[`\"]?"
)


class Errors:
    """Translates the driver's errors, here by SQLAlchemy's class; ``database`` is for messages."""

    def __init__(self, database: str) -> None:
        self.database = database

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Raise the translation of a driver's error that the block raises."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise _naming_catalog(self.translate(error), error) from None

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """The subscriber's error, with class, SQLSTATE and names of constraints or columns, but no
        values. ``columns`` names the column of each parameter of the statement.
        """
        name = self.database
        kind = type(getattr(error, "orig", None) or error).__name__
        if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
            return TargetUnavailable(f"the connection to {name} was lost")
        match error:
            case exc.IntegrityError():
                return ConflictError(f"a constraint of {name} forbids the change ({kind})", sqlstate="23000")
            case exc.DataError():
                return UnsupportedValue(f"{name} cannot hold a value exactly ({kind})")
            case exc.OperationalError() | exc.InterfaceError() | exc.TimeoutError():
                return TargetUnavailable(f"{name} is not available ({kind})")
            case _:
                return TargetError(f"{name} refused a statement ({kind})")


def _naming_catalog(translated: SubscriberError, error: exc.SQLAlchemyError) -> SubscriberError:
    """Add the catalog's table, of which the database's message names at most an index."""
    found = _CATALOG_WRITE.match(getattr(error, "statement", None) or "")
    if found is None or translated.relation is not None:
        return translated
    context = translated.context or f'writing table "{found[1]}" of the catalog'
    return translated.replace(relation=found[1], context=context)
