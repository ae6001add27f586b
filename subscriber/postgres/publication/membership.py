"""The checks and effects of the commands on publications: those of publicationcmds.c, in its order
and with its error texts (rules B1, B5, B6, B30, B31, B37, B38).

::

    command + the publisher's tables + the publication before ──▶ the publication after the command

The caller passes the check of filters, :func:`subscriber.postgres.expressions.check_filter`, which
needs the whole expression code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.postgres.publication import publication_statements
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables

CheckFilter = Callable[[str, PublisherTable, PublisherTables], str]
"""Refuses a filter that the table cannot have, and otherwise returns the text to store."""

_FIRST_UNPINNED_OID: Final = 12000
"""Tables with a lower OID are catalogs (IsCatalogRelation). The tables of information_schema have
higher OIDs, and a publication may name them.
"""

_SYSTEM_COLUMNS: Final = frozenset({"tableoid", "cmax", "xmax", "cmin", "xmin", "ctid"})


def created(
    command: publication_statements.CreatePublication, tables: PublisherTables, check_filter: CheckFilter
) -> Publication:
    publication = Publication(command.name, **publication_statements.read_publication_options(command.options))
    if command.everything:
        return _with_everything(publication, command.everything, tables)
    schemas = _schemas(command.objects, tables)
    publication = _with_tables(publication, _tables_of(command.objects), tables, check_filter, bool(schemas))
    for schema in schemas:
        _check_schema(schema)
    return replace(publication, schemas=schemas)


def with_everything(
    publication: Publication, command: publication_statements.AlterPublicationAll, tables: PublisherTables
) -> Publication:
    """ALTER PUBLICATION … SET ALL TABLES or ALL SEQUENCES."""
    for given, kind in ((command.everything.tables, "TABLES"), (command.everything.sequences, "SEQUENCES")):
        if given and (publication.tables or publication.schemas):
            raise UsageError(
                f'publication "{publication.name}" does not support ALL {kind} operations',
                sqlstate="55000",
                detail="This operation requires the publication to be defined as FOR ALL TABLES/SEQUENCES or to be empty.",
            )
    return _with_everything(publication, command.everything, tables)


def _with_everything(
    publication: Publication, everything: publication_statements.AllObjects, tables: PublisherTables
) -> Publication:
    named = [publication_statements.TableObject(relation) for relation in everything.excepted]
    excepted = [one.table for one in _open(named, tables)]
    for table in excepted:
        _check_relation(table, excepted=True)
    return replace(
        publication,
        all_tables=everything.tables,
        all_sequences=everything.sequences,
        excepted=tuple(one.key for one in sorted(excepted, key=lambda one: one.oid)),
    )


def altered(
    publication: Publication,
    command: publication_statements.AlterPublicationObjects,
    tables: PublisherTables,
    check_filter: CheckFilter,
) -> Publication:
    """ALTER PUBLICATION … ADD, SET or DROP of tables and schemas."""
    schemas = _schemas(command.objects, tables)
    named = _tables_of(command.objects)
    everything = [("ALL TABLES", publication.all_tables), ("ALL SEQUENCES", publication.all_sequences)]
    kind = ", ".join(words for words, has in everything if has)
    members = "Tables or sequences" if tables.features.published_sequences or publication.all_sequences else "Tables"
    for objects, what in ((schemas, "Schemas"), (named, members)):
        if objects and kind:
            raise UsageError(
                f'publication "{publication.name}" is defined as FOR {kind}',
                sqlstate="55000",
                detail=f"{what} cannot be added to or dropped from FOR {kind} publications.",
            )
    match command.action:
        case "add":
            in_schemas = bool(schemas or publication.schemas)
            return _with_schemas(_with_tables(publication, named, tables, check_filter, in_schemas), schemas)
        case "drop":
            return _without_schemas(_without_tables(publication, named, tables), schemas)
        case "set":
            publication = _set_tables(publication, named, tables, check_filter, bool(schemas))
            for schema in schemas:
                if schema not in publication.schemas:
                    _check_schema(schema)
            return replace(publication, schemas=schemas)


def with_options(
    publication: Publication,
    command: publication_statements.AlterPublicationOptions,
    tables: Callable[[], PublisherTables],
) -> Publication:
    """ALTER PUBLICATION … SET (…) (rules B30, B38)."""
    given = publication_statements.read_publication_options(command.options)
    limited = [entry for entry in publication.tables if entry.where is not None or entry.columns is not None]
    if given.get("via_root") is False and limited:
        found = tables().tables
        for entry in limited:
            if entry.key in found and found[entry.key].kind == "partitioned table":
                what = "WHERE clause" if entry.where is not None else "column list"
                raise UsageError(
                    f'cannot set parameter "publish_via_partition_root" to false for publication "{publication.name}"',
                    detail=f'The publication contains a {what} for partitioned table "{entry.name}", which is not allowed '
                    'when "publish_via_partition_root" is false.',
                )
    return replace(publication, **given)


# Names → what they are ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Opened:
    """``PublicationRelInfo``: a table that was found, with what the command has for it."""

    table: PublisherTable
    columns: tuple[str, ...] | None
    where: publication_statements.Filter | None


def _tables_of(objects: Sequence[publication_statements.PublicationObject]) -> list[publication_statements.TableObject]:
    return [one for one in objects if isinstance(one, publication_statements.TableObject)]


def _schemas(objects: Sequence[publication_statements.PublicationObject], tables: PublisherTables) -> tuple[str, ...]:
    """ObjectsInPublicationToOids"""
    found: dict[str, None] = {}
    for one in objects:
        if not isinstance(one, publication_statements.SchemaMember):
            continue
        if one.name is None and tables.current_schema is None:
            raise UsageError("no schema has been selected for CURRENT_SCHEMA", sqlstate="3F000")
        name = one.name or tables.current_schema or ""
        _check_schema_exists(name, tables)
        found[name] = None
    return tuple(found)


def _check_schema_exists(schema: str, tables: PublisherTables) -> None:
    if schema not in tables.schemas:
        raise UsageError(f'schema "{schema}" does not exist', sqlstate="3F000")


def _find(relation: publication_statements.RelationName, tables: PublisherTables) -> PublisherTable:
    if relation.database is not None and relation.database != tables.database:
        raise NotSupportedError(f'cross-database references are not implemented: "{relation.as_written}"')
    if relation.schema is not None:
        _check_schema_exists(relation.schema, tables)
    table = tables.find(relation.schema, relation.name)
    if table is None:
        written = ".".join(part for part in (relation.schema, relation.name) if part is not None)
        raise UsageError(f'relation "{written}" does not exist', sqlstate="42P01")
    return table


def _open(named: Sequence[publication_statements.TableObject], tables: PublisherTables) -> list[_Opened]:
    """OpenTableList: each table once, with the tables that inherit from it (rules B5, B31)."""
    opened: dict[tuple[str, str], _Opened] = {}
    for one in named:
        table = last = _find(one.relation, tables)
        new = _Opened(table, one.columns, one.where)
        if table.key in opened:
            _check_not_limited(new, opened[table.key], table)
            continue
        opened[table.key] = new
        if one.relation.only or table.kind == "partitioned table":
            continue
        for child in tables.children(table):
            if child.key in opened:
                _check_not_limited(new, opened[child.key], last)
                continue
            opened[child.key] = replace(new, table=child)
            last = child
    return list(opened.values())


def _check_not_limited(new: _Opened, old: _Opened, named: PublisherTable) -> None:
    for limits, what in (((new.where, old.where), "WHERE clauses"), ((new.columns, old.columns), "column lists")):
        if any(limit is not None for limit in limits):
            raise UsageError(f'conflicting or redundant {what} for table "{named.name}"', sqlstate="42710")


# Members ------------------------------------------------------------------------------------------


def _with_tables(
    publication: Publication,
    named: Sequence[publication_statements.TableObject],
    tables: PublisherTables,
    check_filter: CheckFilter,
    in_schemas: bool,
) -> Publication:
    entries = list(publication.tables)
    for one in _candidates(publication, named, tables, check_filter, in_schemas):
        if publication.entry(*one.table.key) is not None:
            raise UsageError(
                f'relation "{one.table.name}" is already member of publication "{publication.name}"', sqlstate="42710"
            )
        entries.append(_entry(one))
    return replace(publication, tables=_in_order(entries, tables))


def _set_tables(
    publication: Publication,
    named: Sequence[publication_statements.TableObject],
    tables: PublisherTables,
    check_filter: CheckFilter,
    in_schemas: bool,
) -> Publication:
    """Replace the list of tables. A member that does not change is not checked as a new one."""
    candidates = _candidates(publication, named, tables, check_filter, in_schemas)
    same = set()
    if publication.tables:
        same = {TableEntry(*one.table.key, _column_list(one), one.where) for one in candidates}
    kept = [entry for entry in publication.tables if entry in same]
    keys = {entry.key for entry in kept}
    entries = [*kept, *(_entry(one) for one in candidates if one.table.key not in keys)]
    return replace(publication, tables=_in_order(entries, tables))


def _without_tables(
    publication: Publication, named: Sequence[publication_statements.TableObject], tables: PublisherTables
) -> Publication:
    gone = set()
    for one in _open(named, tables):
        if one.columns is not None:
            raise SQLSyntaxError("column list must not be specified in ALTER PUBLICATION ... DROP")
        if publication.entry(*one.table.key) is None:
            raise UsageError(f'relation "{one.table.name}" is not part of the publication', sqlstate="42704")
        if one.where is not None:
            raise SQLSyntaxError("cannot use a WHERE clause when removing a table from a publication")
        gone.add(one.table.key)
    return replace(publication, tables=tuple(entry for entry in publication.tables if entry.key not in gone))


def _with_schemas(publication: Publication, schemas: Sequence[str]) -> Publication:
    if schemas and any(entry.columns is not None for entry in publication.tables):
        raise UsageError(
            f'cannot add schema to publication "{publication.name}"',
            detail="Schemas cannot be added if any tables that specify a column list are already part of the publication.",
        )
    for schema in schemas:
        if schema in publication.schemas:
            raise UsageError(
                f'schema "{schema}" is already member of publication "{publication.name}"', sqlstate="42710"
            )
        _check_schema(schema)
    return replace(publication, schemas=(*publication.schemas, *schemas))


def _without_schemas(publication: Publication, schemas: Sequence[str]) -> Publication:
    for schema in schemas:
        if schema not in publication.schemas:
            raise UsageError(f'tables from schema "{schema}" are not part of the publication', sqlstate="42704")
    return replace(publication, schemas=tuple(schema for schema in publication.schemas if schema not in schemas))


def _in_order(entries: Sequence[TableEntry], tables: PublisherTables) -> tuple[TableEntry, ...]:
    """By the publisher's OIDs; tables that the publisher no longer has are last."""
    oids = {key: table.oid for key, table in tables.tables.items()}
    return tuple(sorted(entries, key=lambda entry: oids.get(entry.key, 2**32)))


# What may be a member -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    table: PublisherTable
    columns: tuple[str, ...] | None
    where: str | None
    sends_generated: bool


def _candidates(
    publication: Publication,
    named: Sequence[publication_statements.TableObject],
    tables: PublisherTables,
    check_filter: CheckFilter,
    in_schemas: bool,
) -> list[_Candidate]:
    """The tables of a command; each check sees all of them before the next check begins."""
    candidates = [
        _Candidate(
            one.table,
            one.columns,
            _checked_filter(publication, one, tables, check_filter),
            tables.features.published_generated_columns,
        )
        for one in _open(named, tables)
    ]
    for one in candidates:
        partitioned = one.table.kind == "partitioned table" and not publication.via_root
        if one.columns is not None and (in_schemas or partitioned):
            raise UsageError(
                f'cannot use column list for relation "{one.table.qualified_name}" in publication "{publication.name}"',
                detail="Column lists cannot be specified in publications containing FOR TABLES IN SCHEMA elements."
                if in_schemas
                else "Column lists cannot be specified for partitioned tables when publish_via_partition_root is false.",
            )
    return candidates


def _checked_filter(
    publication: Publication, opened: _Opened, tables: PublisherTables, check_filter: CheckFilter
) -> str | None:
    """The filter as it is stored (rules B23-B30); errors have positions in the command."""
    where, table = opened.where, opened.table
    if where is None:
        return None
    if table.kind == "partitioned table" and not publication.via_root:
        raise UsageError(
            f'cannot use publication WHERE clause for relation "{table.name}"',
            detail="WHERE clause cannot be used for a partitioned table when publish_via_partition_root is false.",
        )
    _check_relation(
        table
    )  # PostgreSQL reads the filter first; the columns of what cannot be a member are not known here
    try:
        return check_filter(where.text, table, tables)
    except SQLSyntaxError as error:
        raise where.in_command(error) from None


def _entry(candidate: _Candidate) -> TableEntry:
    """``publication_add_relation``"""
    _check_relation(candidate.table)
    return TableEntry(*candidate.table.key, _column_list(candidate), candidate.where)


def _check_relation(table: PublisherTable, *, excepted: bool = False) -> None:
    """``check_publication_add_relation`` (rules B1, B6)"""
    reason = None
    if excepted and table.is_partition:
        reason = "individual partitions"
    elif table.kind not in ("table", "partitioned table"):
        reason = f"{table.kind}s"
    elif table.oid < _FIRST_UNPINNED_OID:
        reason = "system tables"
    elif table.persistence != "permanent":
        reason = f"{table.persistence} tables"
    if reason is not None:
        raise UsageError(
            f'cannot specify relation "{table.qualified_name}" in the publication EXCEPT clause'
            if excepted
            else f'cannot add relation "{table.name}" to publication',
            detail=f"This operation is not supported for {reason}.",
        )


def _check_schema(schema: str) -> None:
    """``check_publication_add_schema``"""
    detail = None
    if schema in ("pg_catalog", "pg_toast"):
        detail = "This operation is not supported for system schemas."
    elif schema.startswith(("pg_temp_", "pg_toast_temp_")):
        detail = "Temporary schemas cannot be replicated."
    if detail is not None:
        raise UsageError(f'cannot add schema "{schema}" to publication', detail=detail)


def _column_list(candidate: _Candidate) -> tuple[str, ...] | None:
    """``pub_collist_validate``: the column list in the order of the table's columns (rule B37)."""
    if candidate.columns is None:
        return None
    found: set[str] = set()
    for name in candidate.columns:
        column = candidate.table.column(name)
        if column is None and name in _SYSTEM_COLUMNS:
            raise UsageError(f'cannot use system column "{name}" in publication column list', sqlstate="42P10")
        if column is None:
            raise UsageError(f'column "{name}" of relation "{candidate.table.name}" does not exist', sqlstate="42703")
        if column.generated == "virtual" or (column.generated and not candidate.sends_generated):
            kind = "virtual generated" if candidate.sends_generated else "generated"
            raise UsageError(f'cannot use {kind} column "{name}" in publication column list', sqlstate="42P10")
        if name in found:
            raise UsageError(f'duplicate column "{name}" in publication column list', sqlstate="42710")
        found.add(name)
    return tuple(column.name for column in candidate.table.columns if column.name in found)
