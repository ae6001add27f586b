"""New tables in MariaDB."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.dialects.mysql.base import MySQLDialect

from subscriber.schema.shape import ColumnShape, TableShape
from subscriber.targets.generic.ddl import GenericDDL
from subscriber.targets.mariadb import values as mariadb_values
from subscriber.targets.target_table import AutoIncrement
from subscriber.targets.translate_expression import NotKnown, Rules, plain_columns, translate


class MariaDBDDL(GenericDDL):
    """See :class:`~subscriber.targets.roles.ddl.DDL`."""

    def place(self, schema: str, table: str) -> tuple[str | None, str]:
        """See :meth:`DDL.place` and :mod:`subscriber.targets.mariadb.target`."""
        return None, table if schema == "public" else f"{schema}.{table}"

    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        """See :func:`subscriber.targets.mariadb.values.declaration`."""
        return mariadb_values.declaration(type_oid, type_name, key=key, collation=self.collation)

    @property
    def collation(self) -> str:
        """A collation that compares exactly, including blanks at the end."""
        # Before the first connection it is not known whether the server is MariaDB or MySQL.
        dialect = self._engine.dialect
        is_mysql = isinstance(dialect, MySQLDialect) and bool(dialect.server_version_info) and not dialect.is_mariadb
        return "utf8mb4_0900_bin" if is_mysql else "utf8mb4_nopad_bin"

    def storage(self, declared: str) -> str:
        """The type's name as in the server's catalog."""
        word = re.split(r"[ (]", declared, maxsplit=1)[0].lower()
        return {"boolean": "tinyint"}.get(word, word)

    def expression(self, expression: str, types: Mapping[str, int]) -> str | None:
        """See :func:`subscriber.targets.translate_expression.translate`."""
        try:
            return translate(expression, plain_columns(types, _quote), RULES)
        except NotKnown:
            return None

    def literal(self, value: Any) -> str | None:
        """See :meth:`DDL.literal`; supports bytes too."""
        return f"X'{value.hex()}'" if isinstance(value, bytes) else super().literal(value)

    def auto_increment(self, shape: TableShape, column: ColumnShape, declared: str) -> AutoIncrement | None:
        """AUTO_INCREMENT. A table can have one such column, and it must be the first of a key."""
        if column.name != _incremented(shape) or self.storage(declared) not in mariadb_values.INTEGERS:
            return None
        return AutoIncrement(f"{declared} AUTO_INCREMENT")


def _incremented(shape: TableShape) -> str | None:
    """The first identity or serial column with which a key begins."""
    first = {
        columns[0] for columns in (shape.key, *(key.columns for key in shape.unique if not key.deferrable)) if columns
    }
    return next((one.name for one in shape.columns if (one.identity or one.serial) and one.name in first), None)


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


RULES: Final = Rules(
    quote=_quote,
    length="char_length",  # length counts bytes
    concat="concat({left}, {right})",  # || is OR
    date="DATE'{text}'",
    distinct="NOT ({left} <=> {right})",
)
"""How expressions differ from PostgreSQL's."""
