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

from subscriber.errors import COPY_FROM_SCRATCH, NotSupportedError, PublisherError
from subscriber.protocol.encode import encode
from subscriber.protocol.messages import Relation
from subscriber.publication.combine import ROW_OPERATIONS, outdated, plan_relation, plan_truncate
from subscriber.publication.definition import Operation, Publication
from subscriber.publication.listed_tables import listed_tables, member_entry
from subscriber.publication.plan import Opinion, RelationPlan
from subscriber.publication.transform import RowFilter
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables, to_json

_BOOLEAN_OID: Final = 16
_KEPT: Final = 8

CompileWhere = Callable[[Sequence[str], PublisherTable, PublisherTables], RowFilter]
"""A function that compiles filter texts for a table to one filter, which is true where at least one
of them is true.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Publishing:
    """The emulated publications of a subscription, with the publisher's tables.

    Attributes:
        publications: the subscription's publications, in its order.
        tables: the publisher's tables.
        settled: relations that the stream described before ``tables`` was read. If such a relation
            still differs from the tables, the stream is older than the tables.
        digest: a digest of the other attributes: objects with equal digests have equal content.
    """

    publications: tuple[Publication, ...]
    tables: PublisherTables
    settled: frozenset[Relation] = frozenset()
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # The digest is not made from a pickle: equal objects may have different pickles, since sets
        # have no order.
        publications = json.dumps([asdict(one) for one in self.publications], default=sorted)
        settled = sorted(encode(relation).hex() for relation in self.settled)
        content = "\n".join([publications, to_json(self.tables), *settled])
        object.__setattr__(self, "digest", hashlib.sha256(content.encode()).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Publishing) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def published_tables(self) -> list[PublishedTable]:
        """The tables that the publications publish, ordered by schema and name.

        Raises:
            NotSupportedError: 0A000, two publications publish different columns of a table (rule
                B39).
        """
        return listed_tables(self.publications, self.tables)

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """The published columns and rows of one table.

        Raises:
            NotSupportedError: as :meth:`published_tables`.
            PublisherError: 42704, the table is no longer published.
        """
        found = next((table for table in self.published_tables() if table.key == (schema, name)), None)
        if found is None:
            raise PublisherError(
                f'table "{schema}.{name}" is not published any more',
                sqlstate="42704",
                hint="Run ALTER SUBSCRIPTION … REFRESH PUBLICATION to remove it from the subscription.",
                relation=f"{schema}.{name}",
            )
        return found

    def has_column_list(self, schema: str, name: str) -> bool:
        """Whether one of the publications has a column list for the table."""
        table = self.tables.find(schema, name)
        entries = [] if table is None else [member_entry(one, table) for one in self.publications]
        return any(entry is not None and entry.columns is not None for entry in entries)

    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        """See :meth:`Publications.published_actions`."""
        listing = [
            one
            for one in self.publications
            if any(table.key == (schema, name) for table in listed_tables([one], self.tables))
        ]
        return frozenset[str]().union(*(one.publish for one in listing)) if listing else None

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """The schemas and names of the tables whose UPDATEs or DELETEs are published.

        Raises:
            NotSupportedError: as :meth:`published_tables`.
        """
        changing = [one for one in self.publications if one.publish & {"update", "delete"}]
        return frozenset(table.key for table in listed_tables(changing, self.tables))

    def with_tables(self, tables: PublisherTables, shape: Relation | None = None) -> Publishing:
        """The same publications with the publisher's current tables.

        Tables that no longer exist are kept: the journal may still contain their changes.

        Args:
            tables: the publisher's current tables.
            shape: the relation message that differed from the tables, so that they were read again
                (:class:`~subscriber.errors.PublisherTablesOutdated`); None if there was no such
                message.
        """
        oids = {table.oid for table in tables.tables.values()}
        gone = {
            key: table
            for key, table in self.tables.tables.items()
            if key not in tables.tables and table.oid not in oids
        }
        settled = self.settled if shape is None else self.settled | {shape}
        return Publishing(self.publications, replace(tables, tables={**gone, **tables.tables}), settled)


@dataclass(frozen=True, slots=True)
class Program:
    """The plan of a relation with its compiled filters.

    Attributes:
        plan: the plan.
        filters: the filters of the operations that are filtered.
    """

    plan: RelationPlan
    filters: Mapping[Operation, RowFilter]


class Compiled:
    """The programs of one :class:`Publishing`, each made when its relation is first used.

    Args:
        publishing: the publications and tables to compile.
        compile_where: compiles filter texts to one filter.
    """

    def __init__(self, publishing: Publishing, compile_where: CompileWhere | None = None) -> None:
        self._publishing = publishing
        self._compile_where = compile_where or compile_any
        self._programs: dict[Relation, Program] = {}
        self._filters: dict[tuple[Relation, tuple[str, ...]], RowFilter] = {}

    def program(self, relation: Relation) -> Program:
        """The program for the changes of ``relation``.

        Raises:
            SubscriberError: as :func:`~subscriber.publication.combine.plan_relation`; or a filter
                cannot be evaluated with the columns of the stream.
        """
        program = self._programs.get(relation)
        if program is None:
            program = self._programs[relation] = self._make(relation)
        return program

    def _make(self, relation: Relation) -> Program:
        plan = plan_relation(
            self._publishing.publications, self._publishing.tables, relation, settled=self._is_settled(relation)
        )
        filters = {}
        for operation in ROW_OPERATIONS:
            opinions = plan.filters(operation)
            if operation in plan.operations and opinions:
                filters[operation] = self._filter(plan, opinions)
        return Program(plan, filters)

    def opinion(self, plan: RelationPlan, opinion: Opinion) -> RowFilter | None:
        """The filter of one publication alone; None if it has no filter.

        Raises:
            SubscriberError: the filter cannot be evaluated with the columns of the stream.
        """
        return None if opinion.where is None else self._filter(plan, (opinion,))

    def _filter(self, plan: RelationPlan, opinions: Sequence[Opinion]) -> RowFilter:
        texts = tuple(dict.fromkeys(one.where for one in opinions if one.where is not None))
        key = (plan.relation, texts)
        if key not in self._filters:
            assert plan.table is not None
            table = plan.table.computing({column.name for column in plan.relation.columns})
            row_filter = self._compile_where(texts, table, self._publishing.tables)
            self._check_columns(plan.table, plan.relation, row_filter)
            self._filters[key] = row_filter
        return self._filters[key]

    def _check_columns(self, table: PublisherTable, relation: Relation, row_filter: RowFilter) -> None:
        """Check that the stream has the filter's columns, with the types for which the filter was
        compiled.
        """
        types = {column.name: column.type_oid for column in relation.columns}
        for name in row_filter.columns:
            column = table.column(name)
            assert column is not None
            if types.get(name) == column.type_oid:
                continue
            if not self._is_settled(relation):
                raise outdated(relation)
            raise _not_in_stream(relation, column)

    def _is_settled(self, relation: Relation) -> bool:
        return relation in self._publishing.settled

    def truncated(self, relations: Sequence[Relation]) -> tuple[Relation, ...]:
        """The relations for which a TRUNCATE of ``relations`` is sent.

        Raises:
            SubscriberError: as :meth:`program`.
        """
        return plan_truncate(
            self._publishing.publications,
            self._publishing.tables,
            relations,
            lambda relation: self.program(relation).plan,
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
    """Several filters compiled to one, as ``make_orclause`` combines them.

    After a filter that is true, the following filters are not evaluated (rule B9).

    Raises:
        SubscriberError: a filter is not valid, or cannot be evaluated here.
    """
    # Imported here, because the imports take half a second, which a worker without filters saves.
    from subscriber.filters.analyze.tree import Boolean
    from subscriber.filters.check import check_filter
    from subscriber.filters.evaluate.row_filter import compile_filter

    expressions = tuple(check_filter(text, table, tables) for text in texts)
    if len(expressions) == 1:
        return compile_filter(expressions[0], tables.server_version)
    return compile_filter(Boolean(_BOOLEAN_OID, 0, "or", expressions), tables.server_version)


@lru_cache(maxsize=_KEPT)
def compiled(publishing: Publishing) -> Compiled:
    """The programs of ``publishing``, cached in the process."""
    return Compiled(publishing)
