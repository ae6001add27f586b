"""The names of the catalog's tables among those of a publisher and of the user."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from subscriber.catalog.catalog_upgrade import RETIRED
from subscriber.catalog.own_tables import CATALOG, OWN_TABLES
from subscriber.postgres.schema.relation_names import RelationNames
from subscriber.postgres.sql.quoting import quote_literal

if TYPE_CHECKING:
    from subscriber.targets import Target, TargetTable


def is_catalog_table(names: RelationNames, schema: str, name: str, columns: Collection[str] | None) -> bool:
    """Whether the publisher's relation is a table of a subscriber's catalog, because the publisher
    is itself a target. Such tables are not replicated, as PostgreSQL's own catalogs are not.

    A table of the user that has only the name is replicated; a catalog of another version has some
    columns less, or more. A table that the map gives another name is replicated on request.
    ``columns`` are the published ones; None if they are not known.
    """
    table = CATALOG.tables.get(name, RETIRED.tables.get(name))
    if table is None or columns is None or names.in_target(schema, name)[1] != name:
        return False
    own = set(table.columns.keys())
    return own.issubset(columns) or own.issuperset(columns)


def occupies(target: Target, schema: str, name: str, found: TargetTable | None) -> bool:
    """Whether a table of the catalog is in the place of a subscription's table."""
    place, local = target.ddl.qualified(schema, name) if found is None else (found.schema, found.name)
    if not target.capabilities.table_case:
        local = local.lower()
    return local in OWN_TABLES and place in (None, target.engine.dialect.default_schema_name)


def map_elsewhere(names: RelationNames, schema: str, name: str) -> str:
    """The option ``map`` that stores a table of the publisher beside a table of the catalog."""
    tables = dict(names.tables) | {(schema, name): (names.in_target(schema, name)[0], f"published_{name}")}
    return f"map = {quote_literal(str(RelationNames(tuple(tables.items()), names.schemas)))}"
