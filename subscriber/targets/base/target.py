"""A target is put together: the base class of each role, unless a dialect has its own."""

from __future__ import annotations

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


def base_target(url: sa.URL, engine: sa.Engine) -> Target:
    """A target with the base class of each role, and none of the capabilities."""
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


def quote_all_names(dialect: Any) -> None:
    """Quote all names: reserved words depend on the server's version, and names without quotes on
    how the database folds their case.
    """

    class _Preparer(dialect.preparer):  # type: ignore[misc]  # a class that is known when it runs
        def _requires_quotes(self, _value: str) -> bool:
            return True

    dialect.preparer = _Preparer
    dialect.identifier_preparer = _Preparer(dialect)
