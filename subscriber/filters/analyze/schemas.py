"""Finds the schema of a qualified name."""

from __future__ import annotations

from subscriber.errors import UsageError
from subscriber.schema.publisher_tables import PublisherTables


class Schemas:
    """The schemas of the publisher."""

    def __init__(self, tables: PublisherTables) -> None:
        self._schemas = {*tables.schemas, "pg_catalog", "information_schema"}

    def of(self, names: tuple[str, ...]) -> str | None:
        """Return the schema of a qualified name (``LookupExplicitNamespace``).

        Returns:
            None if the name is written without a schema.

        Raises:
            UsageError: 3F000, there is no such schema.
        """
        schema = names[-2] if len(names) > 1 else None
        if schema is not None and schema not in self._schemas:
            raise UsageError(f'schema "{schema}" does not exist', sqlstate="3F000")
        return schema
