"""The initial copy of a table: Spark jobs read it from the publisher, the driver loads it in one
transaction (rules D2, D6).

::

    plan ──ranges──▶ jobs.RangeJobs ──a Spark job each──▶ COPY … TO STDOUT ──▶ blocks.py ──▶ Loading.loader ──▶ one transaction
                          ▲                                (executors)        (executors)        (driver)
                          └──────── the rest of a range ────────┘

Every task sees the same snapshot. The order of ranges does not matter; blocks are loaded as they
come, and only a few are in memory at a time. What is small, or cannot be read in ranges, is read by
the driver itself: a job costs more.

The target's transaction begins when the first block is there. Until then nothing of the target is
held, however long somebody at the publisher keeps the table locked.

How rows travel is not the subscription's option ``binary``: the copy is binary where source and
target have the same types of a kind that binary means the same for, and text everywhere else; what
the target gets is the same. But which columns may be filled is: with ``binary`` a target that is
PostgreSQL takes, from publishers that PostgreSQL would copy from in binary form (16 and later), no
value whose binary form its column does not read (rule D7).
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final, Protocol

from pyspark.sql import SparkSession

from subscriber import failpoints
from subscriber.apply.local_relations import Following, LocalRelation, RelationMap, with_shapes
from subscriber.catalog import SchemaChanges
from subscriber.errors import SubscriberError
from subscriber.pipeline.jobs import RangeJobs
from subscriber.protocol.messages import Relation
from subscriber.publication.publishing import Publishing
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyFormat, CopyPlan, TableFiles, plan_copy
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.read_attributes import changed_files, read_attributes
from subscriber.publisher.snapshot import snapshot_session
from subscriber.schema.kept_shape import Baseline, first_baseline
from subscriber.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.schema.server_features import ServerFeatures
from subscriber.settings import Settings
from subscriber.stages.blocks import check_absent
from subscriber.targets import Connection, Target
from subscriber.targets.loader import BlockFormat, LoadColumn

logger = logging.getLogger(__name__)

BeginCopy = Callable[[], AbstractContextManager[Connection]]
"""Begins the target's transaction of a copy and gives its connection, as
:meth:`subscriber.targets.Target.begin` does.
"""

_FORMATS: Final[dict[BlockFormat, CopyFormat]] = {"arrow": "csv", "text": "text", "binary": "binary"}

_READ_BY_DRIVER_BYTES: Final = 1024 * 1024
"""A table up to this size is read sooner than a Spark task has started."""


@dataclass(frozen=True, slots=True)
class CopySource:
    """A table to copy, and where from.

    Attributes:
        conninfo: the publisher.
        subscription: for the names of sessions.
        publications: the names of the subscription's publications.
        schema: the table's.
        table: its name.
        snapshot: the name of the exported snapshot.
        files: of this table, by :func:`subscriber.publisher.copy_plan.table_files` from before the
            snapshot was made.
        publishing: the publications, where they are emulated; else the server is asked.
        names: the target's names of tables.
        add_columns: begins a transaction of its own in which the target's table gets the columns
            that it lacks; None: it gets none.
        binary: the subscription's option.
        changes: keeps the shape that the table is copied with; None: nobody does.
    """

    conninfo: str = field(repr=False)
    subscription: str
    publications: tuple[str, ...]
    schema: str
    table: str
    snapshot: str
    files: TableFiles
    publishing: Publishing | None = None
    names: RelationNames = SAME_NAMES
    add_columns: BeginCopy | None = None
    binary: bool = False
    changes: SchemaChanges | None = None


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """How far a copy is.

    Attributes:
        rows: loaded.
        bytes: of COPY data that they came as.
        estimated_rows: of the table, by the publisher's statistics; 0 where it has none.
        estimated_bytes: of the table, on the publisher's disk.
    """

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int


def copy_table(
    spark: SparkSession,
    source: CopySource,
    target: Target,
    begin: BeginCopy,
    settings: Settings,
    *,
    on_progress: Callable[[CopyProgress], None],
    stop: threading.Event,
) -> CopyProgress:
    """Copy a table inside one transaction of the caller's.

    Args:
        spark: the session.
        source: what to copy.
        target: where to.
        begin: ``target.begin``, or more than that: entered once, with the first block or at the end
            of an empty table, and left when all is loaded, or with what is wrong.
        settings: its ``partition_bytes``.
        on_progress: told after every block.
        stop: ends the copy, which then raises.

    Raises:
        PublisherError: the table cannot be read; ``transient`` where another snapshot will do.
        ApplyError: the target's table does not fit, or a row does not.
        TargetUnavailable: try again.
        PipelineError: Spark failed; 57014 when ``stop`` was set.
    """
    qualified = f"{source.schema}.{source.table}"
    local: LocalRelation | None = None
    try:
        plan, version, baseline = _plan(source, settings)
        if plan.hidden_from is not None:
            # PostgreSQL's worker copies what it sees, too, and the stream, which no policy holds
            # for, then brings changes of other rows.
            logger.warning(
                'row security of table "%s" hides rows from role "%s" of the CONNECTION: only the others are copied. Give the role'
                " BYPASSRLS, or let such a copy fail with options=-crow_security=off in the CONNECTION.",
                qualified,
                plan.hidden_from,
            )
        local = _local_relation(source, target, plan.relation)
        columns = [
            LoadColumn(column, announced.type_oid)
            for column, announced in zip(local.columns, plan.relation.columns, strict=True)
        ]
        reader = CopyReader(
            source.conninfo,
            source.subscription,
            source.snapshot,
            plan.query,
            _FORMATS[target.loading.block_format(columns)],
        )
        refused = _refused(target, columns) if source.binary and ServerFeatures(version).binary_copy else {}
        progress = CopyProgress(0, 0, plan.estimated_rows, plan.estimated_bytes)
        with RangeJobs(
            spark.sparkContext,
            reader,
            plan.relation,
            plan.ranges,
            settings.partition_bytes,
            group=f"copy of {qualified} {uuid.uuid4()}",
            driver_reads=plan.estimated_bytes <= _READ_BY_DRIVER_BYTES,
        ) as jobs:
            blocks = jobs.blocks(stop)
            first = list(islice(blocks, 1))
            with begin() as connection:
                with target.loading.loader(connection, local.table, columns) as load:
                    for block in chain(first, blocks):
                        failpoints.hit("copy.block.before")
                        content = block.content()
                        check_absent(content, refused)
                        load(content)
                        failpoints.hit("copy.block.after")
                        progress = replace(progress, rows=progress.rows + block.rows, bytes=progress.bytes + block.size)
                        on_progress(progress)
                if source.changes is not None:
                    source.changes.copied(connection, plan.relation, baseline)
    except SubscriberError as error:
        relation = error.relation or source.names.qualified(source.schema, source.table)
        raise _with_context(error.replace(relation=relation), local) from None
    return progress


def _with_context(error: SubscriberError, local: LocalRelation | None) -> SubscriberError:
    """The error with its table and column, as PostgreSQL's CONTEXT has them, and with what the
    column is at both ends.
    """
    if local is not None:
        error = with_shapes(error, local)
    column = f', column "{error.column}"' if error.column else ""
    return error.replace(context=error.context or f'initial copy of table "{error.relation}"{column}')


def _local_relation(source: CopySource, target: Target, relation: Relation) -> LocalRelation:
    """The target's table, with the columns that it is to get."""
    if source.add_columns is None:
        with target.reporting(), target.engine.connect() as connection:
            return RelationMap(target, connection, source.names).open(relation)
    following = None if source.changes is None else Following(source.changes, copies=True)
    with source.add_columns() as connection:
        relations = RelationMap(target, connection, source.names, add_columns=True, alone=True, following=following)
        local = relations.open(relation)
    if source.changes is not None:
        source.changes.log(relations.alterations)
    return local


def _refused(target: Target, columns: Sequence[LoadColumn]) -> dict[int, SubscriberError]:
    """The columns that read another binary form than the publisher's type has, by their place, each
    with what to raise.
    """
    refusals = ((place, target.values.refused_binary(load.type_oid, load.column)) for place, load in enumerate(columns))
    return {place: error for place, error in refusals if error is not None}


def _plan(source: CopySource, settings: Settings) -> tuple[CopyPlan, int, Baseline | None]:
    """What to copy, the publisher's version, and what its table is like as of the snapshot."""
    with snapshot_session(source.conninfo, source.subscription, source.snapshot) as connection:
        publications = source.publishing or ServerPublications(connection, source.publications)
        plan = plan_copy(connection, publications, source.schema, source.table, settings.partition_bytes, source.files)
        listed = True if source.publishing is not None else None
        attributes = read_attributes(connection, source.publications, source.schema, source.table, listed=listed)
        if attributes is not None:
            # Files are not as of the snapshot; these are from before it.
            attributes = replace(attributes, files=changed_files(source.files))
        return plan, connection.info.server_version, first_baseline(attributes)


class CopyTable(Protocol):
    """Copies one table: ``functools.partial(copy_table, spark)``.

    Whoever copies tables is given this, and need not know that there is a session.
    """

    def __call__(
        self,
        source: CopySource,
        target: Target,
        begin: BeginCopy,
        settings: Settings,
        *,
        on_progress: Callable[[CopyProgress], None],
        stop: threading.Event,
    ) -> CopyProgress:
        """The arguments, result and errors are those of :func:`copy_table`."""
