"""The initial copy of a table: Spark jobs read it from the publisher, and the driver loads it in
one transaction (rules D2, D6).

::

    plan ──ranges──▶ jobs.RangeJobs ──a Spark job each──▶ COPY … TO STDOUT ──▶ blocks.py ──▶ Loading.loader ──▶ one transaction
                          ▲                                (executors)        (executors)        (driver)
                          └──────── the rest of a range ────────┘

Every task uses the same snapshot. The order of the ranges does not matter: blocks are loaded in the
order in which they arrive, and only a few are in memory at a time. A table that is small, or that
cannot be read in ranges, is read by the driver itself, because a Spark job would cost more.

The transaction of the target begins when the first block has arrived. Until then nothing in the
target is locked, however long another session at the publisher keeps the table locked.

The subscription's option ``binary`` does not decide the format of COPY. The copy is binary if
source and target have the same types and their binary format means the same, and text otherwise;
the values in the target are the same. But the option decides which columns may be filled. With
``binary``, and from publishers from which PostgreSQL would copy in binary format (16 and later), a
PostgreSQL target refuses values whose binary format its column cannot read (rule D7).
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

from subscriber import failpoints
from subscriber.apply.relations.follow_schema_changes import Following
from subscriber.apply.relations.local_relations import LocalRelation, RelationMap
from subscriber.apply.relations.relation_checks import with_shapes
from subscriber.apply.writing.replaced_blocks import BlockReplacement
from subscriber.apply.writing.unrepresentable import ReplacedTally, replaced_columns
from subscriber.catalog import SchemaChanges, count_replaced_values
from subscriber.errors import SubscriberError
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.pipeline.jobs import RangeJobs
from subscriber.pipeline.spark import Spark
from subscriber.protocol.messages import Relation
from subscriber.publication.publishing import Publishing
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyFormat, CopyPlan, TableFiles, plan_copy
from subscriber.publisher.published_tables import ServerPublications
from subscriber.publisher.publisher import Publisher
from subscriber.publisher.read_attributes import changed_files, read_attributes
from subscriber.publisher.snapshot import snapshot_session
from subscriber.schema.kept_shape import Baseline, first_baseline
from subscriber.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.schema.server_features import ServerFeatures
from subscriber.schema.value_rules import STOP, ValueRules
from subscriber.settings import Settings
from subscriber.stages.blocks import check_absent
from subscriber.targets import Connection, Target
from subscriber.targets.loader import BlockFormat, LoadColumn

logger = logging.getLogger(__name__)

BeginCopy = Callable[[], AbstractContextManager[Connection]]
"""Begins the target's transaction of a copy, and returns its connection, as
:meth:`subscriber.targets.Target.begin` does.
"""

_FORMATS: Final[dict[BlockFormat, CopyFormat]] = {"arrow": "csv", "text": "text", "binary": "binary"}

_READ_BY_DRIVER_BYTES: Final = 1024 * 1024
"""A table up to this size is read before a Spark task would have started."""


@dataclass(frozen=True, slots=True)
class CopySource:
    """A table to copy, and the publisher that has it.

    Attributes:
        conninfo: the connection string of the publisher.
        subscription: the name of the subscription, used to name sessions.
        publications: the names of the subscription's publications.
        schema: the schema of the table.
        table: the name of the table.
        snapshot: the name of the exported snapshot.
        files: the files of this table, read by :func:`subscriber.publisher.copy_plan.table_files`
            before the snapshot was exported.
        publishing: the emulated publications; None if the server evaluates the publications.
        names: maps the names of tables to the target's names.
        add_columns: begins a separate transaction in which the target's table gets its missing
            columns; with None no columns are added.
        binary: the subscription's option.
        changes: stores the shape that the table is copied with; with None neither the shape nor the
            number of replaced values is stored.
        values: in which columns NULL takes the place of values that the target cannot hold.
        show_values: replaced values are recorded with their text, and with the key of their row.
        lsn: the LSN of the snapshot, for these records.
        streamed: the publications that the stream is filtered by at the publisher.
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
    values: ValueRules = STOP
    show_values: bool = False
    lsn: LSN = INVALID_LSN
    streamed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy.

    Attributes:
        rows: the number of loaded rows.
        bytes: the size of the COPY data of these rows.
        estimated_rows: the number of rows of the table by the publisher's statistics; 0 if there
            are none.
        estimated_bytes: the size of the table on the publisher's disk.
    """

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int


def copy_table(
    spark: Spark,
    source: CopySource,
    target: Target,
    begin: BeginCopy,
    settings: Settings,
    *,
    on_progress: Callable[[CopyProgress], None],
    stop: threading.Event,
) -> CopyProgress:
    """Copy a table in one transaction, which the caller begins and ends.

    Args:
        spark: reads the table, unless it is so small that the driver does. A large table waits
            until Spark has started.
        source: the table to copy.
        target: the target.
        begin: ``target.begin``, or a function that does more. It is entered once, with the first
            block or at the end of an empty table, and left when all rows are loaded or an error has
            occurred.
        settings: ``partition_bytes`` is used.
        on_progress: called after every block.
        stop: ends the copy with an error.

    Raises:
        PublisherError: the table cannot be read; ``transient`` if another snapshot solves that.
        ApplyError: the target's table, or a row, does not fit.
        TargetUnavailable: the target cannot be reached now.
        PipelineError: Spark failed; 57014 if ``stop`` was set.
        Stopped: ``stop`` was set before Spark had started.
    """
    qualified = f"{source.schema}.{source.table}"
    local: LocalRelation | None = None
    try:
        plan, version, baseline, skipped = _plan(source, settings)
        if plan.hidden_from is not None:
            # PostgreSQL's worker also copies only the rows that it sees. Policies do not apply to
            # the stream, which then brings changes of other rows.
            logger.warning(
                'row security of table "%s" hides rows from role "%s" of the CONNECTION: only the others are copied. Give the role'
                " BYPASSRLS, or let such a copy fail with options=-crow_security=off in the CONNECTION.",
                qualified,
                plan.hidden_from,
            )
        local = _local_relation(source, target, plan.relation)
        replaced = (
            replaced_columns(source.values, local) if source.values.concern((source.schema, source.table)) else {}
        )
        columns = [
            LoadColumn(column, announced.type_oid, replaced=column.name in replaced)
            for column, announced in zip(local.columns, plan.relation.columns, strict=True)
        ]
        block_format = target.loading.block_format(columns)
        tally = ReplacedTally(show_values=source.show_values)
        replacement = BlockReplacement(target, local, replaced, tally, source.lsn) if replaced else None
        reader = CopyReader(
            source.conninfo,
            source.subscription,
            source.snapshot,
            plan.query,
            _FORMATS[block_format],
        )
        refused = _refused(target, columns) if source.binary and ServerFeatures(version).binary_copy else {}
        progress = CopyProgress(0, 0, plan.estimated_rows, plan.estimated_bytes)
        is_small = plan.estimated_bytes <= _READ_BY_DRIVER_BYTES
        with RangeJobs(
            None if is_small else spark.session_unless(stop).sparkContext,
            reader,
            plan.relation,
            plan.ranges,
            settings.partition_bytes,
            group=f"copy of {qualified} {uuid.uuid4()}",
        ) as jobs:
            blocks = jobs.blocks(stop)
            first = list(islice(blocks, 1))
            with begin() as connection:
                with target.loading.loader(connection, local.table, columns) as load:
                    for block in chain(first, blocks):
                        failpoints.hit("copy.block.before")
                        content = block.content()
                        check_absent(content, refused)
                        load(content if replacement is None else replacement.replace(content, block_format))
                        failpoints.hit("copy.block.after")
                        progress = replace(progress, rows=progress.rows + block.rows, bytes=progress.bytes + block.size)
                        on_progress(progress)
                if source.changes is not None:
                    source.changes.copied(connection, plan.relation, baseline, lsn=source.lsn, skipped=skipped)
                    count_replaced_values(connection, source.changes.subid, tally.columns)
    except SubscriberError as error:
        relation = error.relation or source.names.qualified(source.schema, source.table)
        raise _with_context(error.replace(relation=relation), local) from None
    return progress


def _with_context(error: SubscriberError, local: LocalRelation | None) -> SubscriberError:
    """Return the error with its table and column, worded like PostgreSQL's CONTEXT, and with the
    column's definition at publisher and target.
    """
    if local is not None:
        error = with_shapes(error, local)
    column = f', column "{error.column}"' if error.column else ""
    return error.replace(context=error.context or f'initial copy of table "{error.relation}"{column}')


def _local_relation(source: CopySource, target: Target, relation: Relation) -> LocalRelation:
    """Return the target's table. With ``add_columns`` its missing columns are added first."""
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
    """Return the columns whose binary format differs from that of the publisher's type. The key is
    the place of the column, the value is the error to raise.
    """
    refusals = ((place, target.values.refused_binary(load.type_oid, load.column)) for place, load in enumerate(columns))
    return {place: error for place, error in refusals if error is not None}


def _plan(source: CopySource, settings: Settings) -> tuple[CopyPlan, int, Baseline | None, list[str]]:
    """Return the plan of the copy, the version of the publisher, the shape of its table as of the
    snapshot, and the streamed publications that did not exist then.
    """
    with snapshot_session(source.conninfo, source.subscription, source.snapshot) as connection:
        publications = source.publishing or ServerPublications(connection, source.publications)
        plan = plan_copy(connection, publications, source.schema, source.table, settings.partition_bytes, source.files)
        attributes = read_attributes(connection, publications, source.schema, source.table)
        if attributes is not None:
            # The files of a table are not part of a snapshot. These were read before the snapshot.
            attributes = replace(attributes, files=changed_files(source.files))
        skipped = Publisher(connection).missing_publications(source.streamed)
        return plan, connection.info.server_version, first_baseline(attributes), skipped


class CopyTable(Protocol):
    """Copies one table: ``functools.partial(copy_table, spark)``.

    Code that copies tables gets this function, and does not depend on a Spark session.
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
        """Copy one table; the arguments, result and errors are those of :func:`copy_table`."""
