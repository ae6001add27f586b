"""Publications and the tables that they are about, in one object that travels to the executors and
is compiled there once.

A relation's plan and its filters are made at its first change, and kept for the process: an
executor's Python worker is reused, and makes them once for all its tasks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Final

from subscriber.errors import NotSupportedError, PublisherError
from subscriber.protocol.encode import encode
from subscriber.protocol.messages import Relation
from subscriber.publication.combine import ROW_OPERATIONS, outdated, plan_relation, plan_truncate
from subscriber.publication.definition import Operation, Publication
from subscriber.publication.listed_tables import listed_tables
from subscriber.publication.plan import Opinion, RelationPlan
from subscriber.publication.transform import RowFilter
from subscriber.schema.published_table import PublishedTable
from subscriber.schema.publisher_tables import PublisherColumn, PublisherTable, PublisherTables, to_json

_BOOLEAN_OID: Final = 16
_KEPT: Final = 8

CompileWhere = Callable[[Sequence[str], PublisherTable, PublisherTables], RowFilter]
"""Filter texts, the table that they are for, all tables → one filter, true where any of them is."""


@dataclass(frozen=True, slots=True, eq=False)
class Publishing:
    """Emulated publications: what a subscription's changes are published by.

    Attributes:
        publications: the subscription's, in its order.
        tables: the publisher's.
        settled: relations as the stream described them before ``tables`` was read: what still
            differs from the tables is older than they are.
        digest: of all that: where two are equal, so is what they hold.
    """

    publications: tuple[Publication, ...]
    tables: PublisherTables
    settled: frozenset[Relation] = frozenset()
    digest: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Not pickled: what is equal need not have one pickle, since sets have no order.
        publications = json.dumps([asdict(one) for one in self.publications], default=sorted)
        settled = sorted(encode(relation).hex() for relation in self.settled)
        content = "\n".join([publications, to_json(self.tables), *settled])
        object.__setattr__(self, "digest", hashlib.sha256(content.encode()).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Publishing) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def published_tables(self) -> list[PublishedTable]:
        """The tables that the publications publish, by schema and name.

        Raises:
            NotSupportedError: 0A000, two of them publish different columns of a table (rule B39).
        """
        return listed_tables(self.publications, self.tables)

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """What of one table is published.

        Raises:
            NotSupportedError: see :meth:`published_tables`.
            PublisherError: 42704, the table is not published any more.
        """
        found = next((table for table in self.published_tables() if table.key == (schema, name)), None)
        if found is None:
            raise PublisherError(
                f'table "{schema}.{name}" is not published any more',
                sqlstate="42704",
                hint="ALTER SUBSCRIPTION … REFRESH PUBLICATION takes it out of the subscription.",
                relation=f"{schema}.{name}",
            )
        return found

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the tables whose UPDATEs or DELETEs are published.

        Raises:
            NotSupportedError: see :meth:`published_tables`.
        """
        changing = [one for one in self.publications if one.publish & {"update", "delete"}]
        return frozenset(table.key for table in listed_tables(changing, self.tables))

    def with_tables(self, tables: PublisherTables, shape: Relation | None = None) -> Publishing:
        """The same publications with the publisher's tables as they are now.

        Tables that no longer exist are kept: the journal may still hold changes of them.

        Args:
            tables: the publisher's, as they are now.
            shape: the relation message that did not fit the tables, and because of which they were
                read again (:class:`~subscriber.errors.PublisherTablesOutdated`); None for no such
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
    """A relation's plan, ready to run.

    Attributes:
        plan: the plan.
        filters: for the operations that are filtered.
    """

    plan: RelationPlan
    filters: Mapping[Operation, RowFilter]


class Compiled:
    """The programs of one :class:`Publishing`, each made when its relation comes first.

    Args:
        publishing: what to compile.
        compile_where: makes a filter of texts.
    """

    def __init__(self, publishing: Publishing, compile_where: CompileWhere | None = None) -> None:
        self._publishing = publishing
        self._compile_where = compile_where or compile_any
        self._programs: dict[Relation, Program] = {}
        self._filters: dict[tuple[Relation, tuple[str, ...]], RowFilter] = {}

    def program(self, relation: Relation) -> Program:
        """What becomes of the changes of ``relation``.

        Raises:
            SubscriberError: see :func:`~subscriber.publication.combine.plan_relation`; or a filter
                cannot be evaluated with what the stream has.
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
        """The filter of one publication alone; None where it has none.

        Raises:
            SubscriberError: the filter cannot be evaluated with what the stream has.
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
        """The stream must have the filter's columns, with the types that the filter was
        made for.
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
        """What a TRUNCATE of ``relations`` goes on for.

        Raises:
            SubscriberError: see :meth:`program`.
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
        hint="Leave the transaction out with ALTER SUBSCRIPTION ... SKIP, or drop the subscription and create it again.",
        relation=relation.qualified_name,
        column=column.name,
    )


def compile_any(texts: Sequence[str], table: PublisherTable, tables: PublisherTables) -> RowFilter:
    """One filter of several, as ``make_orclause`` makes it: what follows one that is true is not
    evaluated (rule B9).

    Raises:
        SubscriberError: a filter is not valid, or cannot be evaluated here.
    """
    # Here, because it is half a second of imports that a worker without filters need not wait for.
    from subscriber.filters.analyze.tree import Boolean
    from subscriber.filters.check import check_filter
    from subscriber.filters.evaluate.row_filter import compile_filter

    expressions = tuple(check_filter(text, table, tables) for text in texts)
    if len(expressions) == 1:
        return compile_filter(expressions[0], tables.server_version)
    return compile_filter(Boolean(_BOOLEAN_OID, 0, "or", expressions), tables.server_version)


@lru_cache(maxsize=_KEPT)
def compiled(publishing: Publishing) -> Compiled:
    """The process's programs of ``publishing``."""
    return Compiled(publishing)
