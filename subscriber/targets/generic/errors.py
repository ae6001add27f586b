"""Translation of SQLAlchemy's exceptions by their class, for the errors of any driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import exc

from subscriber.errors import (
    ConflictError,
    SubscriberError,
    TargetError,
    TargetUnavailable,
    UnsupportedValue,
)


class GenericErrors:
    """See :class:`~subscriber.targets.roles.errors.Errors`."""

    def __init__(self, database: str) -> None:
        self.database = database

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """See :meth:`Errors.reporting`."""
        try:
            yield
        except exc.SQLAlchemyError as error:
            raise self.translate(error) from None

    def translate(self, error: exc.SQLAlchemyError, columns: Sequence[str] = ()) -> SubscriberError:
        """See :meth:`Errors.translate`."""
        name = self.database
        del columns  # only a dialect can tell which parameter failed
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
