"""Translation of the driver's errors to the subscriber's errors.

The driver's text is discarded, because drivers quote rows in their messages, and a message of the
subscriber must not contain a value (invariant names_are_data). For the same reason errors are
raised ``from None``: a printed traceback would show the driver's text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sqlalchemy import exc

from subscriber.errors import (
    SubscriberError,
)


class Errors(Protocol):
    """Translates the errors that the driver raises.

    Attributes:
        database: the database's name in messages, such as "SQLite".
    """

    database: str

    def reporting(self) -> AbstractContextManager[None]:
        """Translate the driver's errors that the block raises.

        Raises:
            SubscriberError: the block raised an error of the driver; this is its translation.
        """
        ...

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """The subscriber's error for an error of the driver.

        It has a class, an SQLSTATE, and names of constraints or columns, but no values.

        Args:
            error: the exception that SQLAlchemy raised.
            columns: for each parameter of the failed statement, the name of its column; empty if
                the caller does not know this.
        """
        ...
