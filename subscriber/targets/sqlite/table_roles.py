"""The roles of a SQLite target that read and write tables of rows; see
:mod:`subscriber.targets.table_roles`.
"""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.targets.generic.row_versions import GenericRowVersions
from subscriber.targets.sqlite.column_values import SQLiteValues
from subscriber.targets.sqlite.ddl import SQLiteDDL
from subscriber.targets.sqlite.errors import SQLiteErrors
from subscriber.targets.sqlite.loading import SQLiteLoading
from subscriber.targets.sqlite.matching import SQLiteMatching
from subscriber.targets.sqlite.sequences import SQLiteSequences
from subscriber.targets.sqlite.shapes import SQLiteShapes
from subscriber.targets.sqlite.writing import SQLiteWriting
from subscriber.targets.table_roles import TableRoles


def table_roles(engine: sa.Engine, errors: SQLiteErrors) -> TableRoles:
    """Create the roles of one target."""
    values, writing = SQLiteValues(), SQLiteWriting(errors)
    return TableRoles(
        shapes=SQLiteShapes(errors),
        values=values,
        matching=SQLiteMatching(),
        writing=writing,
        loading=SQLiteLoading(engine, errors, values, writing),
        ddl=SQLiteDDL(engine),
        sequences=SQLiteSequences(errors),
        row_versions=GenericRowVersions(),
    )
