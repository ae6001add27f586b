"""New tables in DuckDB."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from typing_extensions import override

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.sql.quoting import quote_literal
from subscriber.targets.base.ddl import DDL
from subscriber.targets.duckdb import values
from subscriber.targets.target_table import AutoIncrement
from subscriber.targets.translate_expression import TranslationRules


class DuckDBDDL(DDL):
    def __init__(self, engine: sa.Engine) -> None:
        super().__init__(engine)
        self.rules = TranslationRules(quote=engine.dialect.identifier_preparer.quote, date="DATE '{text}'")

    @override
    def qualified(self, schema: str, table: str) -> tuple[str | None, str]:
        return None if schema == "public" else schema, table

    @override
    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        return values.declaration(type_oid, type_name)

    @override
    def storage(self, declared: str) -> str:
        return values.storage(declared)

    @override
    def literal(self, value: Any) -> str | None:
        match value:
            case bytes():
                return f"from_hex('{value.hex()}')"
            case str() if "\0" not in value:
                return quote_literal(value)
            case _:
                return super().literal(value)

    @override
    def auto_increment(self, shape: PublisherTable, column: PublisherColumn, declared: str) -> AutoIncrement | None:
        """A sequence, which outlives its table, and starts again if that is created again."""
        name = self._engine.dialect.identifier_preparer.quote(f"subscriber.{shape.qualified_name}.{column.name}")
        create = sa.DDL(f"CREATE OR REPLACE SEQUENCE {name}".replace("%", "%%"))  # type: ignore[no-untyped-call]  # SQLAlchemy left it out
        return AutoIncrement(f"{declared} DEFAULT nextval({self.literal(name)})", before=(create,))
