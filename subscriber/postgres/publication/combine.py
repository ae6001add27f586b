"""The combined effect of several publications on one relation: which changes are sent, as which
table, by which filters, with which columns.

This is pgoutput's ``get_rel_sync_entry`` and the functions that it calls, with data in place of
catalogs::

    publications ┐              published_as         who counts: the highest level of the partition tree (B2-B4)
    tables       ├── relation ──▶ operations         of all that hold the relation, also of those that do not count (B3)
                 │              ▶ publication_filters           for insert, update, delete: filters, or unfiltered (B8-B10a)
                 │              ▶ sent_columns       lists and publish_generated_columns, which must agree (B39-B41)
                 └──────────────▶ plan_relation      all of it, for the relation as the stream describes it

The stream is that of a carrier, which publishes partitions under their own names; the ancestors are
in :class:`PublisherTables` only. Where the stream and the tables disagree about the stream's
columns, the stream is correct, and the tables are read again once
(:class:`~subscriber.base.errors.PublisherTablesOutdated`). A relation that still differs is
*settled*: the stream is older than the tables.

PostgreSQL 15, 16 and 17 do not have ``publish_generated_columns`` and allow no generated column in
a column list. For them the rules of 18 have the same results as their own rules. Only 15 decides
differently which lists contain all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from subscriber.base.errors import COPY_FROM_SCRATCH, NotSupportedError, PublisherTablesOutdated
from subscriber.postgres.protocol.messages import IDENTITY_FLAG, Relation, RelationColumn
from subscriber.postgres.publication.definition import Operation, Publication
from subscriber.postgres.publication.listed_tables import is_excepted, member_entry
from subscriber.postgres.schema.publisher_tables import PublisherTable, PublisherTables

ROW_OPERATIONS: Final[tuple[Operation, ...]] = ("insert", "update", "delete")
_IDENTITIES: Final = {"default": "d", "nothing": "n", "full": "f", "index": "i"}


@dataclass(frozen=True, slots=True)
class PublicationFilter:
    """One filter (rule B8); ``where`` is None where the operation is published unfiltered."""

    publication: str
    where: str | None


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """The plan for the changes of one relation, as it was received: the relation and the columns
    that are sent, or None, and the filters of the publications that count, in the subscription's
    order. The filters are written for the columns of ``table``.
    """

    relation: Relation
    publish_as: Relation | None = None
    table: PublisherTable | None = None
    operations: frozenset[Operation] = frozenset()
    publication_filters: Mapping[Operation, tuple[PublicationFilter, ...]] = field(default_factory=dict)

    def filters(self, operation: Operation) -> tuple[PublicationFilter, ...]:
        """The filters for OR; none if the operation is unfiltered (rules B9, B10a)."""
        publication_filters = self.publication_filters.get(operation, ())
        return () if any(one.where is None for one in publication_filters) else publication_filters


@dataclass(frozen=True, slots=True)
class PublishedAs:
    """How publications publish a table: as itself or as an ancestor. ``operations`` are those of
    all; filters and column lists only those of ``publications``, which publish it as ``table``.
    """

    table: PublisherTable
    operations: frozenset[Operation]
    publications: tuple[Publication, ...]


@dataclass(frozen=True, slots=True)
class SentColumns:
    """The columns that are sent; ``listed``: a column list selects them."""

    names: frozenset[str]
    listed: bool


def published_as(
    publications: Iterable[Publication], tables: PublisherTables, table: PublisherTable
) -> PublishedAs | None:
    """How publications publish a table; None if none of them publishes it (rules B2-B4, B6)."""
    ancestors = tables.ancestors(table)
    highest = 0
    operations: frozenset[Operation] = frozenset()
    counted: list[Publication] = []
    for publication in publications:
        level = level_of(publication, table, ancestors)
        if level is None or (table.kind == "partitioned table" and not publication.via_root):
            continue
        operations |= publication.publish
        if level < highest:
            continue
        if level > highest:
            highest, counted = level, []
        counted.append(publication)
    if not counted:
        return None
    return PublishedAs(ancestors[highest - 1] if highest else table, operations, tuple(counted))


def level_of(publication: Publication, table: PublisherTable, ancestors: Sequence[PublisherTable]) -> int | None:
    """The level of the tree at which a table is published (rule B2): 0 itself, 1 its parent."""
    if publication.all_tables:
        if is_excepted(publication, table, ancestors):
            return None
        return len(ancestors) if publication.via_root else 0
    levels = [level for level, ancestor in enumerate(ancestors, 1) if _is_member(publication, ancestor)]
    if levels and publication.via_root:
        return levels[-1]
    return 0 if levels or _is_member(publication, table) else None


def _is_member(publication: Publication, table: PublisherTable) -> bool:
    return table.schema in publication.schemas or publication.entry(*table.key) is not None


def publication_filters(found: PublishedAs) -> dict[Operation, tuple[PublicationFilter, ...]]:
    """Each publication's filter, or the lack of one, by operation (rules B8, B10)."""
    return {
        operation: tuple(
            PublicationFilter(publication.name, _where(publication, found.table))
            for publication in found.publications
            if operation in publication.publish
        )
        for operation in ROW_OPERATIONS
    }


def _where(publication: Publication, table: PublisherTable) -> str | None:
    # A publication has no entry also for a leaf that it publishes through a parent, under the
    # leaf's own name.
    entry = member_entry(publication, table)
    return None if entry is None else entry.where


def sent_columns(found: PublishedAs) -> SentColumns:
    """NotSupportedError if column lists (rule B39) or generated columns (rule B41) differ."""
    table = found.table
    lists = [_column_list(publication, table) for publication in found.publications]
    options = {one.generated_columns for one, names in zip(found.publications, lists, strict=True) if names is None}
    if len(options) > 1 and any(column.generated for column in table.columns):
        raise NotSupportedError(
            "cannot use different values of publish_generated_columns for table"
            f' "{table.qualified_name}" in different publications',
            relation=table.qualified_name,
            hint="Give the publications the same value, with ALTER PUBLICATION ... SET (publish_generated_columns = ...).",
        )
    default = frozenset(
        column.name
        for column in table.columns
        if not column.generated or (column.generated == "stored" and "stored" in options)
    )
    sets = {default if names is None else names for names in lists}
    # PostgreSQL 15 compares like this: for it a list is equal to no list only if the list has as
    # many columns as the table ever had.
    counted = {None if names is None or len(names) == table.attributes else names for names in lists}
    if len(sets) > 1 or (table.attributes and len(counted) > 1):
        raise NotSupportedError(
            f'cannot use different column lists for table "{table.qualified_name}" in different publications',
            relation=table.qualified_name,
            hint="Give the table the same columns in all publications of the subscription.",
        )
    return SentColumns(sets.pop(), any(names is not None for names in lists))


def _column_list(publication: Publication, table: PublisherTable) -> frozenset[str] | None:
    entry = member_entry(publication, table)
    return None if entry is None or entry.columns is None else frozenset(entry.columns)


def plan_relation(
    publications: Sequence[Publication], tables: PublisherTables, relation: Relation, *, settled: bool = False
) -> RelationPlan:
    """The plan for the changes of ``relation``, as the carrier described it. ``settled``: the
    tables were read afterwards; if not, and they differ, PublisherTablesOutdated. NotSupportedError
    as :func:`sent_columns`, and if a column that must be sent is missing, or a dropped relation may
    have been a partition.
    """
    table = _table_of(tables, relation, settled=settled)
    if table is None:
        return _plan_unknown(publications, tables, relation, settled=settled)
    found = published_as(publications, tables, table)
    if found is None:
        return RelationPlan(relation)
    return RelationPlan(
        relation=relation,
        publish_as=_publish_as(found, table, relation, settled=settled),
        table=found.table,
        operations=found.operations,
        publication_filters=publication_filters(found),
    )


def _table_of(tables: PublisherTables, relation: Relation, *, settled: bool) -> PublisherTable | None:
    table = tables.tables.get((relation.namespace, relation.name))
    if table is not None and table.oid == relation.relation_id:
        return table
    if not settled:
        return None
    # The table was renamed since then: the stream still has the old name, which the publications
    # contain.
    same = next((one for one in tables.tables.values() if one.oid == relation.relation_id), None)
    return None if same is None else replace(same, schema=relation.namespace, name=relation.name)


def _plan_unknown(
    publications: Sequence[Publication], tables: PublisherTables, relation: Relation, *, settled: bool
) -> RelationPlan:
    """The plan for a relation that is not among the tables: it was created later, or dropped. A
    dropped table is in no subscription, so its changes would be ignored (rule C4). If it was a
    partition, they belonged to a table that still exists, which cannot be found out any more.
    """
    holding = [one for one in publications if _may_hold(one, tables, relation)]
    if not holding:
        return RelationPlan(relation)
    if not settled:
        raise outdated(relation)
    if any(publication.via_root and _has_roots(publication, tables) for publication in holding):
        raise NotSupportedError(
            f'cannot tell how table "{relation.qualified_name}" was published',
            detail="It was dropped before the publisher's tables were read, and it may have been a partition.",
            hint=f"Skip the transaction with ALTER SUBSCRIPTION ... SKIP. Otherwise: {COPY_FROM_SCRATCH}",
            relation=relation.qualified_name,
        )
    return RelationPlan(relation)


def _may_hold(publication: Publication, tables: PublisherTables, relation: Relation) -> bool:
    named = publication.entry(relation.namespace, relation.name) is not None
    return named or bool(publication.schemas) or _has_roots(publication, tables)


def _has_roots(publication: Publication, tables: PublisherTables) -> bool:
    """Whether a publication may contain partitioned tables, and so unknown partitions."""
    if publication.all_tables or publication.schemas:
        return True
    members = (tables.tables.get(entry.key) for entry in publication.tables)
    return any(table is not None and table.kind == "partitioned table" for table in members)


def outdated(relation: Relation) -> PublisherTablesOutdated:
    return PublisherTablesOutdated(
        f'the publisher\'s table "{relation.qualified_name}" has changed since the tables were read',
        hint="The tables are read again, and the changes are retried.",
        relation=relation.qualified_name,
        shape=relation,
    )


def _publish_as(found: PublishedAs, table: PublisherTable, relation: Relation, *, settled: bool) -> Relation:
    """The relation as ``logicalrep_write_attrs`` describes it (rules A8, A9, B40, B41)."""
    # Column lists are compared only if operations on rows are published. A relation for TRUNCATE
    # alone has the columns that it would have without a list.
    rows = any(operation in found.operations for operation in ROW_OPERATIONS)
    sent = sent_columns(found) if rows else SentColumns(_plain(found.table), listed=False)
    target = found.table
    known = {column.name for column in (*table.columns, *target.columns)}
    there = {column.name for column in relation.columns}
    if not settled and not (there <= known and sent.names & _plain(target) <= there):
        raise outdated(relation)
    columns = [
        column
        for column in relation.columns
        # A column that was dropped since then is taken for a plain column, because nothing else is
        # known.
        if column.name in sent.names or not (sent.listed or column.name in known)
    ]
    for missing in sent.names - there:
        _check_sent(target, missing)
    if target.oid == table.oid:
        return replace(relation, columns=tuple(columns))
    return Relation(target.oid, target.schema, target.name, _IDENTITIES[target.identity], _in_order_of(target, columns))


def _plain(table: PublisherTable) -> frozenset[str]:
    return frozenset(column.name for column in table.columns if not column.generated)


def _check_sent(table: PublisherTable, name: str) -> None:
    """Refuse a generated column that is not sent. Any other is newer than the stream."""
    column = table.column(name)
    if column is None:
        raise NotSupportedError(
            f'column "{name}" of table "{table.qualified_name}" does not exist',
            detail="A publication of the subscription has the column in its column list. It was renamed or dropped at the"
            " publisher.",
            hint="Give the table its columns with ALTER PUBLICATION ... SET TABLE.",
            relation=table.qualified_name,
            column=name,
        )
    if not column.generated:
        return
    raise NotSupportedError(
        f'cannot publish generated column "{name}" of table "{table.qualified_name}"',
        detail="The carrier does not send the column.",
        hint="Run ALTER PUBLICATION ... SET (publish_generated_columns = stored) for the carrier at the publisher, which must be PostgreSQL 18 or newer.",
        relation=table.qualified_name,
        column=name,
    )


def _in_order_of(target: PublisherTable, columns: Sequence[RelationColumn]) -> tuple[RelationColumn, ...]:
    """A leaf's columns in the ancestor's order and with its replica identity (rule B12)."""
    places = {column.name: place for place, column in enumerate(target.columns)}
    ordered = sorted(columns, key=lambda column: places.get(column.name, len(places)))
    return tuple(replace(column, flags=IDENTITY_FLAG if _is_identity(target, column.name) else 0) for column in ordered)


def _is_identity(table: PublisherTable, name: str) -> bool:
    return table.identity == "full" or (table.identity != "nothing" and name in table.identity_columns)


def plan_truncate(
    publications: Sequence[Publication],
    tables: PublisherTables,
    relations: Sequence[Relation],
    plan: Callable[[Relation], RelationPlan],
) -> tuple[Relation, ...]:
    """The relations for which a TRUNCATE is sent, in its order; empty if it is not sent (rules A26,
    B4, B21, B22).

    The carrier sends only the names of leaves: a TRUNCATE of a partitioned table is one of all its
    leaves, so the two cannot be distinguished. If ``TRUNCATE p1, p2`` names every leaf of a table
    that is published as root, the root is truncated here, while the server would have sent nothing.
    At the publisher the root has no row left, either.
    """
    named = {relation.relation_id for relation in relations}
    sent: dict[int, Relation] = {}
    for relation in relations:
        one = plan(relation)
        if one.publish_as is None or one.table is None:
            continue
        operations = one.operations
        if one.table.oid != relation.relation_id:
            found = published_as(publications, tables, one.table)
            whole = {leaf.oid for leaf in _leaves(tables, one.table)} <= named
            operations = found.operations if found is not None and whole else frozenset()
        if "truncate" in operations:
            sent.setdefault(one.table.oid, one.publish_as)
    return tuple(sent.values())


def _leaves(tables: PublisherTables, table: PublisherTable) -> list[PublisherTable]:
    return [one for one in tables.children(table) if one.kind == "table" and one.persistence == "permanent"]
