"""What the tests of targets need beside :mod:`subscriber.testing.written_tables`."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.targets import Target
from subscriber.targets.generic.target import GenericTarget
from subscriber.targets.mariadb.transactions import facts_of
from subscriber.testing.nodes.mirrored_rows import Row
from subscriber.testing.written_tables import (
    OIDS,
    batch,
    created,
    decoded,
    insert,
    load_columns,
    reflected,
    shape_of,
    stored,
)

__all__ = [
    "OIDS",
    "Row",
    "batch",
    "created",
    "decoded",
    "distinct_keys",
    "insert",
    "is_unknown",
    "load_columns",
    "qualified",
    "reflected",
    "run",
    "shape_of",
    "stored",
]


def is_unknown(target: Target) -> bool:
    """Whether only what the probes have found is known of it."""
    return isinstance(target, GenericTarget)


def distinct_keys(target: Target, texts: Sequence[str]) -> list[str]:
    """The texts that can be keys of one table: some servers ignore blanks at the end."""
    ignores_blanks = facts_of(target.engine.dialect).exact_collation is None
    return list({text.rstrip(" ") if ignores_blanks else text: text for text in texts}.values())


def qualified(target: Target, shape: PublisherTable) -> str:
    """The table's name in the target's SQL."""
    schema, name = target.ddl.qualified(shape.schema, shape.name)
    return target.engine.dialect.identifier_preparer.format_table(sa.table(name, schema=schema))


def run(target: Target, sql: str) -> None:
    """SQL of the target's users."""
    with target.reporting(), target.engine.begin() as connection:
        connection.execution_options(no_parameters=True).exec_driver_sql(sql)
