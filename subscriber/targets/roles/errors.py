"""The driver's errors in our words.

The driver's text is thrown away, because drivers quote rows in their messages, and no message of
ours may hold a value (invariant names_are_data). For the same reason errors are raised
``from None``: a printed traceback would show the driver's text.
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
    """Translation of what the driver raises.

    Attributes:
        database: the database's name in messages, such as "SQLite".
    """

    database: str

    def reporting(self) -> AbstractContextManager[None]:
        """Raise the driver's errors of the block as ours."""
        ...

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """The driver's error in our words: class, SQLSTATE, constraint or column names; no values.

        Args:
            error: what SQLAlchemy raised.
            columns: the column that each parameter of the failed statement was for, where the
                caller knows.
        """
        ...
