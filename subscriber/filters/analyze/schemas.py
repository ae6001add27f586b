"""The schemas that a qualified name may be written with."""

from __future__ import annotations

from subscriber.errors import UsageError
from subscriber.schema.publisher_tables import PublisherTables


class Schemas:
    """The publisher's schemas."""

    def __init__(self, tables: PublisherTables) -> None:
        self._schemas = {*tables.schemas, "pg_catalog", "information_schema"}

    def of(self, names: tuple[str, ...]) -> str | None:
        """``LookupExplicitNamespace``: the schema of a qualified name; None where it is written
        without one.

        Raises:
            UsageError: 3F000, there is no such schema.
        """
        schema = names[-2] if len(names) > 1 else None
        if schema is not None and schema not in self._schemas:
            raise UsageError(f'schema "{schema}" does not exist', sqlstate="3F000")
        return schema
