"""The publications of a subscription and the publisher's tables, in one object that is sent to the
executors and compiled there once.

The plan and the filters of a relation are made at its first change and kept in the process. Spark
reuses an executor's Python worker, so the worker makes them once for all its tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Final

from subscriber.base.errors import COPY_FROM_SCRATCH, NotSupportedError, PublisherError
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication import combine
from subscriber.postgres.publication.definition import Operation, Publication
from subscriber.postgres.publication.earlier_tables import (
    EarlierTable,
    as_it_was,
    earlier_tables,
    renamed,
    renamed_tables,
)
from subscriber.postgres.publication.listed_tables import listed_tables, member_entry
from subscriber.postgres.publication.transform import RowFilter
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables, to_json

_BOOLEAN_OID: Final = 16
_KEPT: Final = 8

CompileWhere = Callable[[Sequence[str], PublisherTable, PublisherTables], RowFilter]
"""Compiles filter texts for a table to one filter, which is true where at least one is true."""


@dataclass(frozen=True, slots=True, eq=False)
class Publishing:
    """The emulated publications of a subscription, in its order, with the publisher's tables. A
    relation in ``settled``, described before ``tables`` was read, is older than the tables if it
    differs. ``earlier`` has facts for earlier changes, the oldest of a table first.
    """

    publications: tuple[Publication, ...]
    tables: PublisherTables
    settled: frozenset[Relation] = frozenset()
    earlier: tuple[EarlierTable, ...] = ()
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The digest is not made from a pickle: equal objects may have different pickles, since sets
        # have no order.
        publications = json.dumps([asdict(one) for one in self.publications], default=sorted)
        settled = sorted(encode(relation).hex() for relation in self.settled)
        earlier = json.dumps([asdict(one) for one in self.earlier], default=sorted)
        content = "\n".join([publications, to_json(self.tables), earlier, *settled])
        object.__setattr__(self, "digest", hashlib.sha256(content.encode()).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Publishing) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def published_tables(self) -> list[PublishedTable]:
        """The tables by schema and name; NotSupportedError if columns differ (rule B39)."""
        return listed_tables(self.publications, self.tables)

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """Errors as :meth:`published_tables`, or PublisherError (42704) if not published."""
        found = next((table for table in self.published_tables() if table.key == (schema, name)), None)
        if found is None:
            raise PublisherError(
                f'table "{schema}.{name}" is not published any more',
                sqlstate="42704",
                hint="Run ALTER SUBSCRIPTION … REFRESH PUBLICATION to remove it from the subscription.",
                relation=f"{schema}.{name}",
            )
        return found

    def sequences(self) -> list[tuple[str, str]]:
        if not any(one.all_sequences for one in self.publications):
            return []
        return sorted(
            one.key
            for one in self.tables.tables.values()
            if one.kind == "sequence" and one.persistence == "permanent" and not one.is_system
        )

    def has_column_list(self, schema: str, name: str) -> bool:
        table = self.tables.find(schema, name)
        entries = [] if table is None else [member_entry(one, table) for one in self.publications]
        return any(entry is not None and entry.columns is not None for entry in entries)

    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        listing = [
            one
            for one in self.publications
            if any(table.key == (schema, name) for table in listed_tables([one], self.tables))
        ]
        return frozenset[str]().union(*(one.publish for one in listing)) if listing else None

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """The schemas and names of the tables whose UPDATEs or DELETEs are published."""
        changing = [one for one in self.publications if one.publish & {"update", "delete"}]
        return frozenset(table.key for table in listed_tables(changing, self.tables))

    def with_tables(self, tables: PublisherTables, shape: Relation | None = None) -> Publishing:
        """The same publications with the publisher's current tables. They follow tables that were
        renamed.

        Tables that no longer exist are kept: the journal may still contain their changes. Where
        tables are published otherwise now, their earlier facts are kept, too. ``shape`` is the
        relation message because of which the tables were read again.
        """
        oids = {table.oid for table in tables.tables.values()}
        gone = {
            key: table
            for key, table in self.tables.tables.items()
            if key not in tables.tables and table.oid not in oids
        }
        settled = self.settled if shape is None else self.settled | {shape}
        now = replace(tables, tables={**gone, **tables.tables})
        publications = renamed(self.publications, renamed_tables(self.tables, now))
        earlier = (*self.earlier, *earlier_tables(publications, self.tables, now))
        return Publishing(publications, now, settled, earlier)

    @property
    def is_placed(self) -> bool:
        return all(one.ends is not None for one in self.earlier)


@dataclass(frozen=True, slots=True)
class Program:
    plan: combine.RelationPlan
    filters: Mapping[Operation, RowFilter]


class Compiled:
    def __init__(self, publishing: Publishing, compile_where: CompileWhere | None = None) -> None:
        self._publishing = publishing
        self._compile_where = compile_where or compile_any
        self._programs: dict[Relation, Program] = {}
        self._filters: dict[tuple[Relation, tuple[str, ...]], RowFilter] = {}
        self._former: dict[tuple[EarlierTable, ...], Compiled] = {}
        self._altered = frozenset(one.oid for one in publishing.earlier)

    def program(self, relation: Relation) -> Program:
        """The program for the changes of ``relation``. Raises as
        :func:`~subscriber.postgres.publication.combine.plan_relation`, or if a filter cannot be
        evaluated with the columns of the stream.
        """
        program = self._programs.get(relation)
        if program is None:
            program = self._programs[relation] = self._make(relation)
        return program

    def _make(self, relation: Relation) -> Program:
        plan = combine.plan_relation(
            self._publishing.publications, self._publishing.tables, relation, settled=self._is_settled(relation)
        )
        filters = {}
        for operation in combine.ROW_OPERATIONS:
            publication_filters = plan.filters(operation)
            if operation in plan.operations and publication_filters:
                filters[operation] = self._filter(plan, publication_filters)
        return Program(plan, filters)

    def was_altered(self, relation: Relation) -> bool:
        return relation.relation_id in self._altered

    def at(self, relation: Relation, lsn: int) -> Compiled:
        """The programs at an LSN; NotSupportedError if it is not known which facts hold there."""
        if not self.was_altered(relation):
            return self
        for one in self._publishing.earlier:
            if one.oid == relation.relation_id and _holds(one, relation, lsn):
                return self._with((one,))
        return self

    def published_relations(self, relation: Relation) -> tuple[Relation, ...]:
        """As which relations the changes of ``relation`` are published, at any LSN: more than one
        if the table was altered. Raises as :meth:`program`.
        """
        earlier = (self._with((one,)) for one in self._publishing.earlier if one.oid == relation.relation_id)
        found = (programs.program(relation).plan.publish_as for programs in (*earlier, self))
        return tuple(dict.fromkeys(one for one in found if one is not None))

    def _with(self, earlier: tuple[EarlierTable, ...]) -> Compiled:
        if not earlier:
            return self
        if earlier not in self._former:
            now = self._publishing
            tables = now.tables
            names: dict[tuple[str, str], tuple[str, str]] = {}
            for one in earlier:
                keys = {table.oid: key for key, table in tables.tables.items()}
                names |= {keys[table.oid]: table.key for table in one.tables if table.oid in keys}
                tables = as_it_was(tables, one.tables)
            former = Publishing(renamed(now.publications, names), tables, now.settled)
            self._former[earlier] = Compiled(former, self._compile_where)
        return self._former[earlier]

    def filter_of(self, plan: combine.RelationPlan, one: combine.PublicationFilter) -> RowFilter | None:
        return None if one.where is None else self._filter(plan, (one,))

    def _filter(
        self, plan: combine.RelationPlan, publication_filters: Sequence[combine.PublicationFilter]
    ) -> RowFilter:
        texts = tuple(dict.fromkeys(one.where for one in publication_filters if one.where is not None))
        key = (plan.relation, texts)
        if key not in self._filters:
            assert plan.table is not None
            table = plan.table.computing({column.name for column in plan.relation.columns})
            row_filter = self._compile_where(texts, table, self._publishing.tables)
            self._check_columns(plan.table, plan.relation, row_filter)
            self._filters[key] = row_filter
        return self._filters[key]

    def _check_columns(self, table: PublisherTable, relation: Relation, row_filter: RowFilter) -> None:
        """Check that the stream has the filter's columns, with the types it was compiled for."""
        types = {column.name: column.type_oid for column in relation.columns}
        for name in row_filter.columns:
            column = table.column(name)
            assert column is not None
            if types.get(name) == column.type_oid:
                continue
            if not self._is_settled(relation):
                raise combine.outdated(relation)
            raise _not_in_stream(relation, column)

    def _is_settled(self, relation: Relation) -> bool:
        return relation in self._publishing.settled

    def truncated(self, relations: Sequence[Relation], lsn: int) -> tuple[Relation, ...]:
        """What a TRUNCATE sends: it may name all partitions of a root, so all facts are needed."""
        for relation in relations:
            self.at(relation, lsn)
        first: dict[int, EarlierTable] = {}
        for one in self._publishing.earlier:
            if one.ends is not None and lsn < one.ends[0]:
                first.setdefault(one.oid, one)
        return self._with(tuple(first.values())).truncated_now(relations)

    def truncated_now(self, relations: Sequence[Relation]) -> tuple[Relation, ...]:
        return combine.plan_truncate(
            self._publishing.publications,
            self._publishing.tables,
            relations,
            lambda relation: self.program(relation).plan,
        )


def _holds(earlier: EarlierTable, relation: Relation, lsn: int) -> bool:
    assert earlier.ends is not None
    first, last = earlier.ends
    if not first <= lsn < last:
        return lsn < first
    raise NotSupportedError(
        f'cannot tell as which table changes of table "{relation.qualified_name}" were published',
        detail=f"Transaction {earlier.changed_by} of the publisher has attached, detached or renamed the table, or one that it"
        " was a partition of. The stream does not show whether the change came before or after that.",
        hint=f"Skip the transaction with ALTER SUBSCRIPTION ... SKIP. Otherwise: {COPY_FROM_SCRATCH}",
        relation=relation.qualified_name,
    )


def _not_in_stream(relation: Relation, column: PublisherColumn) -> NotSupportedError:
    return NotSupportedError(
        f'row filter of table "{relation.qualified_name}" needs column "{column.name}",'
        f" which is not in the stream as type {column.type_name or column.type_oid}",
        detail="The change is older than the column as it is now.",
        hint=f"Skip the transaction with ALTER SUBSCRIPTION ... SKIP. Otherwise: {COPY_FROM_SCRATCH}",
        relation=relation.qualified_name,
        column=column.name,
    )


def compile_any(texts: Sequence[str], table: PublisherTable, tables: PublisherTables) -> RowFilter:
    """As ``make_orclause``: after a filter that is true, no other is evaluated (rule B9)."""
    # Imported here, because the imports take half a second, which a worker without filters saves.
    from subscriber.postgres.expressions.analyze.tree import BoolExpr
    from subscriber.postgres.expressions.check_filter import check_filter
    from subscriber.postgres.expressions.evaluate.row_filter import compile_filter

    expressions = tuple(check_filter(text, table, tables) for text in texts)
    if len(expressions) == 1:
        return compile_filter(expressions[0], tables.server_version, tables.collations)
    return compile_filter(BoolExpr(_BOOLEAN_OID, 0, "or", expressions), tables.server_version, tables.collations)


@lru_cache(maxsize=_KEPT)
def compiled(publishing: Publishing) -> Compiled:
    return Compiled(publishing)
