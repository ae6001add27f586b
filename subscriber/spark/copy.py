"""The initial copy of a table: Spark jobs read it from the publisher, and the driver loads it in
one transaction (rules D2, D6).

::

    plan ──ranges──▶ run_jobs ──Spark jobs──▶ COPY … TO STDOUT ──▶ blocks.py ──▶ Loading.loader ──▶ one transaction
                        ▲                       (executors)       (executors)        (driver)
                        └─── the rest of a range ────┘

Every task uses the same snapshot. Blocks are loaded in the order in which they arrive, and only a
few are in memory at a time: if the loader is slow, the jobs wait. They have a pool of Spark's fair
scheduler, so that the jobs of streams are scheduled, too. The driver itself reads a small table, in
a session that all copies from this snapshot share.

The transaction of the target begins when the first block has arrived. Until then nothing in the
target is locked, however long another session at the publisher keeps the table locked.

The subscription's option ``binary`` does not decide the format of COPY. The copy is binary if both
sides have the same types with the same binary format. But with ``binary``, and a publisher from
which PostgreSQL would copy in binary format (16 and later), a PostgreSQL target refuses values
whose binary format its column cannot read (rule D7).
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final, Protocol

from pyspark import SparkContext

from subscriber.apply.relations.follow_schema_changes import Following
from subscriber.apply.relations.target_relations import RelationMap, TargetRelation, with_shapes
from subscriber.apply.writing.transformed_columns import check_transformed_columns
from subscriber.apply.writing.unrepresentable import BlockReplacement, ReplacedTally, replaced_columns
from subscriber.base import failpoints
from subscriber.base.errors import PipelineError, SubscriberError
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.base.settings import Settings
from subscriber.catalog.replaced_values import count_replaced_values
from subscriber.catalog.schema_changes import SchemaChanges
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.history_rules import NO_HISTORY, HistoryRules
from subscriber.postgres.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.postgres.schema.server_features import ServerFeatures
from subscriber.postgres.schema.stored_shape import Baseline, first_baseline
from subscriber.postgres.schema.transform_rules import NO_TRANSFORMS, TransformRules
from subscriber.postgres.schema.transform_values import transformed_relation
from subscriber.postgres.schema.value_rules import STOP, ValueRules
from subscriber.publisher.catalog import changed_files, read_attributes
from subscriber.publisher.copy_out import CopyReader
from subscriber.publisher.copy_plan import CopyFormat, CopyPlan, CopyRange, TableFiles, plan_copy
from subscriber.publisher.snapshot import CopySession, SnapshotSession
from subscriber.spark.copy_part import read_part, received
from subscriber.spark.jobs import Job, JobGroup, RunningJobs, jobs_of_cores, run_jobs
from subscriber.spark.pending_session import PendingSession
from subscriber.spark.session import is_local
from subscriber.stream.decode.blocks import UNTRANSFORMED, LoadBlock, Transforms, check_absent, load_block
from subscriber.targets import Connection, Target, TargetTable
from subscriber.targets.base.loading import BlockFormat, LoadColumn

logger = logging.getLogger(__name__)

BeginCopy = Callable[[], AbstractContextManager[Connection]]
"""Begins a copy's transaction, as :meth:`subscriber.targets.target.Target.begin` does."""

_FORMATS: Final[dict[BlockFormat, CopyFormat]] = {"arrow": "csv", "text": "text", "binary": "binary"}

_READ_BY_DRIVER_BYTES: Final = 1024 * 1024
"""A table up to this size is read before a Spark task would have started."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""The amount of COPY text of all jobs in flight together. After its share of it, a job returns the
rest of its range, whatever the size of the ranges.

The result of a job is in memory or in files until the target has it. What passes the JVM is there
in several copies until the driver has it. With 4 jobs of 16 MB the JVM peaked at 550 MiB, with 4 of
64 MB at 860 MiB, and the copy was not faster, because loading begins when the first job has ended.
"""

_MOST_JOB_BYTES: Final = 16 * 1024 * 1024
"""The amount of one job if its blocks pass the JVM. In files, fewer and larger jobs cost less."""
_FIRST_SHARE: Final = 8
"""The first jobs read so many times less, so that loading begins early."""

_POOL: Final = "copy"
_BLOCKS_AHEAD: Final = 2
_FAILURE: Final = PipelineError(
    "a Spark job of the initial copy failed", hint="Spark's log says more; the copy starts again."
)


@dataclass(frozen=True, slots=True)
class CopySource:
    """A table to copy, and the publisher that has it; ``lsn`` is that of the exported ``snapshot``.

    ``files`` were read before the snapshot was exported. ``session`` is shared by the copies from
    this snapshot. ``publishing`` is None if the server evaluates the publications. ``local`` is the
    target's table if it was read before, with others. ``add_columns`` begins a separate transaction
    that adds missing columns, for which the table is read again. ``changes`` stores the table's
    shape and the number of replaced values, with ``show_values`` also their text and the key of
    their row.
    """

    conninfo: str = field(repr=False)
    subscription: str
    schema: str
    table: str
    snapshot: str
    files: TableFiles
    session: CopySession = field(repr=False)
    publishing: Publishing | None = None
    names: RelationNames = SAME_NAMES
    local: TargetTable | None = None
    add_columns: BeginCopy | None = None
    binary: bool = False
    changes: SchemaChanges | None = None
    values: ValueRules = STOP
    show_values: bool = False
    lsn: LSN = INVALID_LSN
    history: HistoryRules = NO_HISTORY
    transform: TransformRules = NO_TRANSFORMS


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Loaded rows and their COPY bytes, and the publisher's estimates: rows, bytes on its disk."""

    rows: int
    bytes: int
    estimated_rows: int
    estimated_bytes: int


def copy_table(
    spark: PendingSession,
    source: CopySource,
    target: Target,
    begin: BeginCopy,
    settings: Settings,
    *,
    on_progress: Callable[[CopyProgress], None],
    stop: threading.Event,
) -> CopyProgress:
    """Copy a table in one transaction.

    ``begin`` is entered once, with the first block or at the end of an empty table, and left when
    all rows are loaded or an error has occurred. ``on_progress`` is called before the first block,
    while no transaction of the target is open, and after every block. A large table waits until
    Spark has started; Stopped means that ``stop`` was set before, PipelineError 57014 that it was
    set later. A PublisherError is ``transient`` if another snapshot solves it.
    """
    qualified = f"{source.schema}.{source.table}"
    local: TargetRelation | None = None
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
        transforms = source.transform.of(source.schema, source.table)
        written = transformed_relation(source.transform, plan.relation)
        local = _target_relation(source, target, written)
        check_transformed_columns(target, source.transform, local)
        replaced = (
            replaced_columns(source.values, local) if source.values.concern((source.schema, source.table)) else {}
        )
        columns = [
            LoadColumn(column, announced.type_oid, replaced=column.name in replaced or column.name in transforms)
            for column, announced in zip(local.columns, written.columns, strict=True)
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
        sent = [one for one in columns if one.column.name not in transforms]
        refused = _refused(target, columns, sent) if source.binary and ServerFeatures(version).binary_copy else {}
        progress = CopyProgress(0, 0, plan.estimated_rows, plan.estimated_bytes)
        is_small = plan.estimated_bytes <= _READ_BY_DRIVER_BYTES
        if is_small:
            blocks = driver_blocks(reader, plan.relation, plan.ranges, stop, source.session, transforms=transforms)
        else:
            group = JobGroup(
                f"copy of {qualified}", f"copy of {qualified}, subscription {source.subscription}", _FAILURE, _POOL
            )
            context = spark.session_unless(stop).sparkContext
            blocks = executor_blocks(
                context,
                reader,
                plan.relation,
                plan.ranges,
                settings.partition_bytes,
                stop,
                group=group,
                transforms=transforms,
            )
        with contextlib.closing(blocks):
            on_progress(progress)
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
                    source.changes.copied(connection, written, baseline, lsn=source.lsn, skipped=skipped)
                    count_replaced_values(connection, source.changes.subid, tally.columns)
    except SubscriberError as error:
        relation = error.relation or source.names.qualified(source.schema, source.table)
        raise _with_context(error.replace(relation=relation), local) from None
    return progress


def executor_blocks(
    context: SparkContext,
    reader: CopyReader,
    relation: Relation,
    ranges: Sequence[CopyRange],
    job_bytes: int,
    stop: threading.Event,
    *,
    group: JobGroup,
    transforms: Transforms = UNTRANSFORMED,
) -> Generator[LoadBlock, None, None]:
    """Return the blocks of a table that executors read, in no particular order. A job returns the
    rest of its range after ``job_bytes`` of COPY data, or after its share of :data:`MOST_BYTES`.
    Where the executors are on this machine, the blocks do not pass the JVM.
    """
    at_a_time = jobs_of_cores(context)
    in_files = is_local(str(context.master))
    most_bytes = bytes_of_job(job_bytes, at_a_time, in_files=in_files)

    def check() -> None:
        if stop.is_set():
            raise PipelineError("the initial copy was stopped", sqlstate="57014")

    def read(
        part: CopyRange, first_bytes: int, folder: Path | None, running: RunningJobs
    ) -> Iterator[LoadBlock | SubscriberError]:
        parts, bytes_now = deque([part]), first_bytes
        while parts:
            part = parts.popleft()
            # A row may have a gigabyte. The JVM needs several times the size of what passes it, and
            # would run out of memory.
            if not part.piece.row_slots or part.giant:
                yield from driver_blocks(reader, relation, [part], running.closed, transforms=transforms)
                continue
            for item in running.run(partial(read_part, reader, relation, transforms, part, bytes_now, folder)):
                if isinstance(item, CopyRange):
                    parts.append(item)
                else:
                    yield item if isinstance(item, SubscriberError) else received(item)
            bytes_now = most_bytes

    first = max(1, most_bytes // _FIRST_SHARE)
    with _folder() if in_files else contextlib.nullcontext() as folder:
        jobs: list[Job] = [
            partial(read, part, first if number < at_a_time else most_bytes, folder)
            for number, part in enumerate(ranges)
        ]
        running = run_jobs(context, jobs, group, min(at_a_time, len(jobs)), ahead=_BLOCKS_AHEAD, check=check)
        with contextlib.closing(running):
            yield from running


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the blocks of a copy; those that nobody has read are removed with it."""
    with tempfile.TemporaryDirectory(prefix="subscriber-copy-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def bytes_of_job(job_bytes: int, at_a_time: int, *, in_files: bool) -> int:
    most = MOST_BYTES // at_a_time
    return min(job_bytes, most if in_files else min(most, _MOST_JOB_BYTES))


def driver_blocks(
    reader: CopyReader,
    relation: Relation,
    ranges: Sequence[CopyRange],
    stop: threading.Event,
    session: SnapshotSession | None = None,
    *,
    transforms: Transforms = UNTRANSFORMED,
) -> Generator[LoadBlock, None, None]:
    for part in ranges:
        with contextlib.closing(reader.read_whole(part, stop, session)) as reading:
            for block in reading:
                yield load_block(relation, reader.copy_format, block, transforms)


def _with_context(error: SubscriberError, local: TargetRelation | None) -> SubscriberError:
    """The error with its table, column and definitions, worded like PostgreSQL's CONTEXT."""
    if local is not None:
        error = with_shapes(error, local)
    column = f', column "{error.column}"' if error.column else ""
    return error.replace(context=error.context or f'initial copy of table "{error.relation}"{column}')


def _target_relation(source: CopySource, target: Target, relation: Relation) -> TargetRelation:
    """Return the target's table. With ``add_columns`` its missing columns are added first."""
    if source.add_columns is None:
        with target.reporting(), target.engine.connect() as connection:
            return RelationMap(target, connection, source.names).compare(relation, source.local)
    following = None if source.changes is None else Following(source.changes, copies=True)
    with source.add_columns() as connection:
        relations = RelationMap(target, connection, source.names, add_columns=True, alone=True, following=following)
        local = relations.open(relation)
    if source.changes is not None:
        source.changes.log(relations.alterations)
    return local


def _refused(target: Target, columns: Sequence[LoadColumn], sent: Collection[LoadColumn]) -> dict[int, SubscriberError]:
    """The errors of columns with the publisher's values whose binary format differs from the
    publisher's type, by place.
    """
    refusals = (
        (place, target.values.refused_binary(load.type_oid, load.column))
        for place, load in enumerate(columns)
        if load in sent
    )
    return {place: error for place, error in refusals if error is not None}


def _plan(source: CopySource, settings: Settings) -> tuple[CopyPlan, int, Baseline | None, Sequence[str]]:
    """The plan, the server's version, the table's shape, and newer publications."""
    with source.session.transaction() as connection:
        publications = source.publishing or source.session.published(connection)
        plan = plan_copy(connection, publications, source.schema, source.table, settings.partition_bytes, source.files)
        constants = source.history.copied(source.schema, source.table, source.lsn)
        plan = replace(
            plan, relation=source.history.relation(plan.relation), query=replace(plan.query, constants=constants)
        )
        attributes = read_attributes(connection, publications, source.schema, source.table)
        if attributes is not None:
            # The files of a table are not part of a snapshot. These were read before the snapshot.
            attributes = replace(attributes, files=changed_files(source.files))
        skipped = source.session.missing(connection)
        return plan, connection.info.server_version, first_baseline(attributes), skipped


class CopyTable(Protocol):
    """:func:`copy_table` with Spark bound: code that copies tables does not depend on a session."""

    def __call__(
        self,
        source: CopySource,
        target: Target,
        begin: BeginCopy,
        settings: Settings,
        *,
        on_progress: Callable[[CopyProgress], None],
        stop: threading.Event,
    ) -> CopyProgress: ...
