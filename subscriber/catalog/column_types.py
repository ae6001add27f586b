"""Types of columns that every database has to have in the catalog's way."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles

TEXT: Final = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
"""A text of any length: MySQL's TEXT is too short for the names of a wide table's columns, or for
the values of a row.
"""


class _Name(sa.String):
    """An identifier: short enough for a key anywhere; "S" is not "s", and "s " is not "s" (MySQL's
    default collations say they are).
    """

    cache_ok = True


@compiles(_Name, "mysql", "mariadb")
def _name_in_mysql(_type: _Name, compiler: Any, **_: Any) -> str:
    # MySQL and MariaDB have the collation that compares code points, blanks at the end included, by
    # different names.
    dialect = compiler.dialect
    is_mysql = bool(dialect.server_version_info) and not dialect.is_mariadb
    return f"VARCHAR({_type.length}) COLLATE {'utf8mb4_0900_bin' if is_mysql else 'utf8mb4_nopad_bin'}"


NAME: Final = _Name(63)
"""An identifier of PostgreSQL."""
