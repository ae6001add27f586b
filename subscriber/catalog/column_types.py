"""Column types that every database must treat as the catalog needs them."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

TEXT: Final = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
"""A text of any length. MySQL's TEXT is too short for the column names of a wide table, or for the
values of a row.
"""


class _Name(sa.String):
    """An identifier: short enough for a key in every database. "S" differs from "s", and "s "
    differs from "s" (with MySQL's default collations they are equal).
    """

    cache_ok = True


@compiles(_Name, "mysql", "mariadb")
def _name_in_mysql(_type: _Name, compiler: Any, **_: Any) -> str:
    # MySQL and MariaDB use different names for the collation that compares code points, including
    # spaces at the end.
    dialect = compiler.dialect
    is_mysql = bool(dialect.server_version_info) and not dialect.is_mariadb
    return f"VARCHAR({_type.length}) COLLATE {'utf8mb4_0900_bin' if is_mysql else 'utf8mb4_nopad_bin'}"


NAME: Final = _Name(63)
"""A PostgreSQL identifier."""
