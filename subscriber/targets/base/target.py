"""A target with any other SQLAlchemy dialect. How such a database changes a value is not known, so
opening it logs a warning.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from subscriber.targets.base.errors import Errors
from subscriber.targets.base.transactions import Transactions

if TYPE_CHECKING:
    from subscriber.targets.base.ddl import DDL
    from subscriber.targets.base.values import Values
from subscriber.targets.capabilities import Capabilities
from subscriber.targets.target import TableRoles, Target

logger = logging.getLogger(__name__)


def open_generic(url: sa.URL) -> Target:
    engine = sa.create_engine(url, hide_parameters=True)
    logger.warning("%s is not a tested target: values are bound as text or Python values", engine.dialect.name)
    return generic_target(url, engine)


def generic_target(url: sa.URL, engine: sa.Engine) -> Target:
    errors = Errors("the target")
    return Target(
        url=url,
        engine=engine,
        capabilities=Capabilities(database=errors.database),
        errors=errors,
        transactions=Transactions(engine, errors),
        open_table_roles=lambda: base_roles(engine, errors),
    )


def base_roles(
    engine: sa.Engine, errors: Errors, values: Values | None = None, *, ddl: DDL | None = None, **others: Any
) -> TableRoles:
    """Each role's base class, unless a dialect gives one; others use its ``values`` and ``ddl``."""
    from subscriber.targets.base.catalog import RowVersions, Sequences, Shapes, TableReader
    from subscriber.targets.base.ddl import DDL
    from subscriber.targets.base.loading import Loading
    from subscriber.targets.base.objects import Objects
    from subscriber.targets.base.values import Values
    from subscriber.targets.base.writing import Matching, Writing

    values, writing, new_tables = values or Values(), Writing(errors), ddl or DDL(engine)
    roles = TableRoles(
        shapes=Shapes(errors, new_tables.qualified),
        values=values,
        matching=Matching(),
        writing=writing,
        loading=Loading(engine, errors, values, writing),
        reader=TableReader(values),
        ddl=new_tables,
        sequences=Sequences(errors),
        row_versions=RowVersions(),
        objects=Objects(engine, errors),
    )
    return replace(roles, **others)
