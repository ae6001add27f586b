"""The checks of the conformance kit that replicate a history of a :class:`MemoryDatabase`:
identities, commit order, conflicts, progress, tables with a history, and crashes.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import sqlalchemy as sa

from subscriber.apply.applier import ANY_FORMAT, Rules
from subscriber.apply.exact import ExactApplier
from subscriber.base import failpoints
from subscriber.base.errors import ConflictError, ProgressConflict
from subscriber.base.lsn import INVALID_LSN
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase, Session
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.history_rules import OPEN_LSN, History, HistoryRules
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target, open_target
from subscriber.testing.conformance_storage import HOLDS, TABLE, Check, Found
from subscriber.testing.emulate import emulate
from subscriber.testing.in_process import InProcessSubscription, stream_options
from subscriber.testing.nodes.mirrored_rows import read_target_rows
from subscriber.testing.written_tables import created, insert, reflected, shape_of, stored

_PUBLICATION: Final = "conformance"
_PATIENCE: Final = 300.0
"""Seconds for a process that is killed."""

_History: TypeAlias = tuple[Callable[[Session], object], ...]

_COLUMNS: Final = {"a": "integer", "b": "text", "n": "numeric", "d": "double precision"}
_INSERTS: Final[_History] = (
    lambda session: session.insert(TABLE, a=1, b="Ä ", n="1.50", d=0.1),
    lambda session: session.insert(TABLE, a=2, b=None, n=None, d=None),
    lambda session: session.insert(TABLE, a=3, b="", n="-0.001", d=1e300),
)
_CHANGES: Final[_History] = (
    lambda session: session.update(TABLE, {"a": 1}, b="Ä"),
    lambda session: session.update(TABLE, {"a": 2}, a=20),
    lambda session: session.delete(TABLE, {"a": 3}),
    lambda session: session.insert(TABLE, a=3, b="again"),
)
_LAST: Final[_History] = (
    lambda session: session.truncate(TABLE),
    lambda session: session.insert(TABLE, a=9, b="new"),
)


def _publisher(*, key: bool = True) -> MemoryDatabase:
    publisher = MemoryDatabase()
    publisher.create_table(TABLE, _COLUMNS, primary_key=["a"] if key else [])
    publisher.create_publication(Publication(_PUBLICATION, all_tables=True))
    if not key:
        publisher.session().replica_identity(TABLE, "full")
    return publisher


def _create(target: Target, *, key: bool = True, history: History = "off") -> PublisherTable:
    shape = HistoryRules(history).shape(shape_of(_COLUMNS, ["a"] if key else [], name=TABLE))
    created(target, shape)
    return shape


def _subscribed(
    target: Target, publisher: MemoryDatabase, folder: Path | None = None, history: History = "off"
) -> InProcessSubscription:
    subscription = InProcessSubscription(publisher, target, stream_options([_PUBLICATION]), folder=folder)
    subscription.applier = _applier(target, history)
    return subscription


def _applier(target: Target, history: History = "off") -> ExactApplier:
    rules = Rules(options=replace(ANY_FORMAT, history=history))
    return ExactApplier(target, subscription="conformance", subid=1, read_rules=lambda _: rules)


def _rows(target: Target, publisher: MemoryDatabase) -> tuple[list[str], list[str]]:
    """The rows of the publisher and those of the target, as texts that can be compared."""
    shape = shape_of(_COLUMNS, name=TABLE)
    with target.reporting(), target.engine.connect() as connection:
        found = [dict(zip(_COLUMNS, row, strict=True)) for row in read_target_rows(target, connection, shape)]
    return sorted(map(repr, publisher.select(TABLE))), sorted(map(repr, found))


def _replicated(history: _History, key: bool, together: bool, target: Target) -> Found:
    """Every state that the target shows is one that the publisher has had (commit_order)."""
    publisher = _publisher(key=key)
    _create(target, key=key)
    with _subscribed(target, publisher) as subscription:
        session = publisher.session()
        if together:
            session.begin()
        for number, change in enumerate(history):
            change(session)
            if together:
                continue
            subscription.catch_up()
            here, there = _rows(target, publisher)
            if here != there:
                return "fails", f"after transaction {number + 1} the rows differ"
        if together:
            session.commit()
            subscription.catch_up()
    here, there = _rows(target, publisher)
    return HOLDS if here == there else ("fails", "the rows differ")


def _key_that_exists(target: Target) -> Found:
    """C35: the transactions before it are applied, and it is tried again."""
    publisher = _publisher()
    shape = _create(target)
    with target.begin() as connection:
        insert(target, connection, shape, ("2", "local", None, None))
    with _subscribed(target, publisher) as subscription:
        for change in _INSERTS[:2]:
            change(publisher.session())
        try:
            subscription.catch_up()
        except ConflictError:
            if len(_rows(target, publisher)[1]) != 2:
                return "fails", "the transactions before the conflict are not applied"
        else:
            return "fails", "a row with the key of another one is accepted"
        with target.begin() as connection:
            schema, name = target.ddl.qualified(shape.schema, shape.name)
            clause = sa.table(name, sa.column("a", sa.Integer), schema=schema)
            connection.execute(sa.delete(clause).where(clause.c.a == sa.literal_column("2")))
        subscription.apply()
    here, there = _rows(target, publisher)
    return HOLDS if here == there else ("fails", "the rows differ after the conflict is gone")


def _missing_row(target: Target) -> Found:
    """C18: it is counted and skipped."""
    publisher = _publisher()
    shape = _create(target)
    with _subscribed(target, publisher) as subscription:
        _write(publisher)
        subscription.catch_up()
        table = reflected(target, shape)
        with target.begin() as connection:
            target.writing.delete_all(connection, table)
        publisher.session().update(TABLE, {"a": 1}, b="changed")
        publisher.session().delete(TABLE, {"a": 2})
        subscription.catch_up()
    return HOLDS if not _rows(target, publisher)[1] else ("fails", "a missing row is written")


def _progress(target: Target) -> Found:
    """C32: what was applied is not applied again, whoever tries."""
    publisher = _publisher()
    _create(target)
    with _subscribed(target, publisher) as subscription:
        _write(publisher)
        reached = subscription.catch_up().progress
        with suppress(ProgressConflict):
            emulate(subscription.journal, _applier(target), INVALID_LSN, reached)
        with target.begin() as connection:
            if OriginProgress(1).read(connection) != reached:
                return "fails", "the progress has moved without its data"
    here, there = _rows(target, publisher)
    return HOLDS if here == there else ("fails", "a batch is applied twice")


# Histories ----------------------------------------------------------------------------------------

_IMAGES: Final = (
    (("1", "Ä ", "insert"),),
    (("2", None, "insert"),),
    (("3", "", "insert"),),
    (("1", "Ä", "update_postimage"),),
    (("2", None, "update_preimage"), ("20", None, "update_postimage")),
    (("3", None, "delete"),),
    (("3", "again", "insert"),),
    ((None, None, "truncate"),),
    (("9", "new", "insert"),),
)
"""The rows that an append table gets for each change of the history."""

_VERSIONS: Final = (
    ("1", "Ä ", 1, 4),
    ("2", None, 2, 5),
    ("3", "", 3, 6),
    ("1", "Ä", 4, 8),
    ("20", None, 5, 8),
    ("3", "again", 7, 8),
    ("9", "new", 9, None),
)
"""The versions of the rows, each with the number of the change that begins and that ends it."""


def _appended(together: bool, target: Target) -> Found:
    found = _with_history("append", together, target)
    rows = sorted((int(row["_lsn"] or 0), int(row["_sequence"] or 0), row["a"], row["b"], row["_op"]) for row in found)
    wanted = [
        (2 * (number if together else 1) + (op in ("insert", "update_postimage")), a, b, op)
        for number, images in enumerate(_IMAGES, 1)
        for a, b, op in images
    ]
    return HOLDS if [row[1:] for row in rows] == wanted else ("fails", "the rows are not those of the changes")


def _versions(together: bool, target: Target) -> Found:
    found = _with_history("scd2", together, target)
    bounds = [_place(row, end) for row in found for end in ("from", "to")]
    # Every change begins or ends a version, so their places are numbered as the changes are.
    numbers = {place: number for number, place in enumerate(sorted({*bounds} - {_OPEN}), 1)}
    rows = [(row["a"], row["b"], numbers.get(_place(row, "from")), numbers.get(_place(row, "to"))) for row in found]
    return HOLDS if Counter(rows) == Counter(_VERSIONS) else ("fails", "the versions are not those of the changes")


_OPEN: Final = (OPEN_LSN, 0)


def _place(row: Mapping[str, str | None], end: str) -> tuple[int, int]:
    return int(row[f"_{end}_lsn"] or 0), int(row[f"_{end}_sequence"] or 0)


def _with_history(history: History, together: bool, target: Target) -> list[dict[str, str | None]]:
    """The rows of a table with a history after all changes."""
    publisher = _publisher()
    shape = _create(target, history=history)
    with _subscribed(target, publisher, history=history) as subscription:
        session = publisher.session()
        if together:
            session.begin()
        for change in _INSERTS + _CHANGES + _LAST:
            change(session)
            if not together:
                subscription.catch_up()
        if together:
            session.commit()
        subscription.catch_up()
    names = [column.name for column in shape.columns]
    return [dict(zip(names, row, strict=True)) for row in stored(target, shape)]


# Crashes ------------------------------------------------------------------------------------------


def _killed(moment: str, history: History, target: Target) -> Found:
    """any_crash: the process is killed at the commit of the second batch."""
    publisher = _publisher()
    _create(target, history=history)
    with tempfile.TemporaryDirectory(prefix="subscriber-conformance-") as folder:
        target.engine.dispose()  # some databases let one process in
        url = target.url.render_as_string(hide_password=False)
        armed = {failpoints.ENVIRONMENT: f"target.commit.{moment}=kill@2"}
        process = multiprocessing.get_context("spawn").Process(
            target=_apply_until_killed, args=(url, folder, armed, history)
        )
        process.start()
        process.join(_PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
            return "fails", f"the process still ran after {_PATIENCE:.0f} s"
        if process.exitcode != -9:
            return "fails", f"the process was not killed at the commit, but ended with {process.exitcode}"
        _write(publisher)
        with target.begin() as connection:
            start = OriginProgress(1).read(connection)
        shown = len(_rows(target, publisher)[1])
        if shown != {"before": 1, "after": 2}[moment]:
            return "fails", f"{shown} rows are there after the crash"
        journal = JournalReader(LocalStorage(Path(folder)))
        emulate(journal, _applier(target, history), start)
    here, there = _rows(target, publisher)
    return HOLDS if here == there else ("fails", "the rows differ after a restart")


def _write(publisher: MemoryDatabase, after: Callable[[], object] = lambda: None) -> None:
    """Each INSERT in a transaction of its own."""
    for change in _INSERTS:
        change(publisher.session())
        after()


def _apply_until_killed(url: str, folder: str, armed: dict[str, str], history: History) -> None:
    """In a process of its own: receive everything, and apply it transaction by transaction."""
    publisher = _publisher()
    with open_target(url) as target, _subscribed(target, publisher, Path(folder), history) as subscription:
        _write(publisher, subscription.receive)  # an entry of its own for each
        failpoints.arm(armed)
        for _ in _INSERTS:
            subscription.apply(max_bytes=1)
    os._exit(0)


_OF_HISTORY: Final[dict[str, History]] = {"": "off", " of a history": "append"}

REPLICATION_CHECKS: Final = (
    *(
        Check(
            "identities" if not together else "commit order",
            f"{'primary key' if key else 'full'}, {'one transaction' if together else 'transaction by transaction'}",
            partial(_replicated, _INSERTS + _CHANGES + _LAST, key, together),
        )
        for together in (False, True)
        for key in (True, False)
    ),
    Check("conflicts", "insert_exists", _key_that_exists),
    Check("conflicts", "update_missing, delete_missing", _missing_row),
    Check("progress", "nothing is applied twice", _progress),
    *(
        Check(
            "histories",
            f"{history}, {'one transaction' if together else 'transaction by transaction'}",
            partial(run, together),
        )
        for history, run in (("append", _appended), ("scd2", _versions))
        for together in (False, True)
    ),
    *(
        Check("crashes", f"killed {moment} the commit{of}", partial(_killed, moment, history))
        for of, history in _OF_HISTORY.items()
        for moment in ("before", "after")
    ),
)
