"""A target with any other SQLAlchemy dialect, for which nothing is assumed.

Shapes come from SQLAlchemy's inspector. Values are bound as Python values or as PostgreSQL's text.
How such a database changes a value is not known here, so opening it logs a warning. A dialect that
is to be reliable needs a separate folder (docs/adding-a-target.md).
"""

from __future__ import annotations

import logging

import sqlalchemy as sa

from subscriber.targets.capabilities import Capabilities
from subscriber.targets.generic.errors import GenericErrors
from subscriber.targets.generic.transactions import GenericTransactions
from subscriber.targets.table_roles import TableRoles
from subscriber.targets.target import Target

logger = logging.getLogger(__name__)


def open_generic(url: sa.URL) -> Target:
    """Open ``url`` with its dialect's defaults, and warn that the dialect is not tested."""
    engine = sa.create_engine(url, hide_parameters=True)
    logger.warning("%s is not a tested target: values are bound as text or Python values", engine.dialect.name)
    return generic_target(url, engine)


def generic_target(url: sa.URL, engine: sa.Engine) -> Target:
    """The target for a database of which only SQLAlchemy's dialect is known."""
    errors = GenericErrors("the target")

    def table_roles() -> TableRoles:
        from subscriber.targets.generic.ddl import GenericDDL
        from subscriber.targets.generic.loading import GenericLoading
        from subscriber.targets.generic.matching import GenericMatching
        from subscriber.targets.generic.objects import GenericObjects
        from subscriber.targets.generic.reading import GenericReading
        from subscriber.targets.generic.row_versions import GenericRowVersions
        from subscriber.targets.generic.sequences import GenericSequences
        from subscriber.targets.generic.shapes import GenericShapes
        from subscriber.targets.generic.values import GenericValues
        from subscriber.targets.generic.writing import GenericWriting

        values, writing = GenericValues(), GenericWriting(errors)
        return TableRoles(
            shapes=GenericShapes(errors),
            values=values,
            matching=GenericMatching(),
            writing=writing,
            loading=GenericLoading(engine, errors, values, writing),
            reading=GenericReading(values),
            ddl=GenericDDL(engine),
            sequences=GenericSequences(errors),
            row_versions=GenericRowVersions(),
            objects=GenericObjects(engine, errors),
        )

    return Target(
        url=url,
        engine=engine,
        capabilities=Capabilities(database=errors.database),
        errors=errors,
        transactions=GenericTransactions(engine, errors),
        open_table_roles=table_roles,
    )
