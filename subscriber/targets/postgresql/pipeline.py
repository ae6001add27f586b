"""Many statements with one round trip: libpq's pipeline mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from subscriber.targets.postgresql.errors import translate_driver


class PostgreSQLPipeline:
    """See :class:`~subscriber.targets.roles.pipeline.Pipeline`."""

    def execute(self, connection: sa.Connection, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[int]:
        """See :meth:`Pipeline.execute`."""
        driver: Any = connection.connection.driver_connection
        try:
            with driver.pipeline():
                cursors = [driver.cursor().execute(sql, row) for sql, row in statements]
            return [cursor.rowcount for cursor in cursors]
        except connection.dialect.loaded_dbapi.Error as error:
            # The driver's error quotes rows, so it must not be printed as the cause.
            raise translate_driver(error) from None
