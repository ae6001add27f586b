"""The conformance kit: what of PostgreSQL's semantics holds in a target, without a server.

::

    MemoryDatabase ──▶ InProcessSubscription ──▶ the target's tables, compared after every transaction
                                  └─ in a process that is killed at a failpoint ──▶ all of a batch, or nothing

Every check has one of three outcomes: it *holds*; the target *refuses* something with an error of
this program, which is no loss; or it *fails*: the target would have other rows than the publisher.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import sqlalchemy as sa

from subscriber.apply.exact import ExactApplier
from subscriber.base import failpoints
from subscriber.base.errors import (
    ConflictError,
    NotSupportedError,
    ProgressConflict,
    SubscriberError,
    TargetRelationError,
    UnsupportedValue,
    UsageError,
)
from subscriber.base.lsn import INVALID_LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase, Session
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target, open_target
from subscriber.targets.ddl import drop_table
from subscriber.testing.emulate import emulate
from subscriber.testing.in_process import InProcessSubscription, stream_options
from subscriber.testing.nodes.mirrored_rows import Row, read_target_rows
from subscriber.testing.type_edges import EDGES
from subscriber.testing.written_tables import created, decoded, insert, reflected, shape_of, stored

Holding: TypeAlias = Literal["holds", "refused", "fails"]

_TABLE: Final = "conformance_t"
_PUBLICATION: Final = "conformance"
_PATIENCE: Final = 300.0
"""Seconds for a process that is killed."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The verdict on one check of an area, and what is refused or has failed."""

    area: str
    check: str
    verdict: Holding
    detail: str = ""


_Found: TypeAlias = tuple[Holding, str]
_HOLDS: Final[_Found] = ("holds", "")


@dataclass(frozen=True, slots=True)
class _Check:
    area: str
    name: str
    run: Callable[[Target], _Found]


def check_conformance(url: str | sa.URL, *, crashes: bool = True) -> Iterator[CheckOutcome]:
    """Check a target, whose database must have no tables of the catalog and of the kit; those that
    the kit makes are dropped. Each outcome is given when it is known. Without ``crashes`` no other
    process is started. UsageError if the database is in use; NotSupportedError if it cannot be a
    target.
    """
    with open_target(url) as target:
        with target.reporting():
            there = set(sa.inspect(target.engine).get_table_names())
        if there & {_TABLE, *CATALOG.tables}:
            raise UsageError(
                "the target is in use",
                detail="It has tables of subscriptions, or of an earlier check that was cut off.",
                hint="Name an empty database.",
            )
        for check in _CHECKS if crashes else _QUICK:
            try:
                verdict, detail = check.run(target)
            except (NotSupportedError, TargetRelationError, UnsupportedValue) as error:
                verdict, detail = "refused", error.message  # which has no values
            except SubscriberError as error:
                verdict, detail = "fails", f"{type(error).__name__}: {error.message}"
            finally:
                _clean(target)
            yield CheckOutcome(check.area, check.name, verdict, detail)


def _clean(target: Target) -> None:
    """Drop what a check has made; also what it has made only in part."""
    with suppress(SubscriberError), target.begin() as connection:
        connection.execute(drop_table(target, "public", _TABLE))
    with target.reporting():
        CATALOG.drop_all(target.engine)


# Values -------------------------------------------------------------------------------------------


def _values(kind: str, target: Target) -> _Found:
    shape = shape_of({"number": "integer", "value": kind}, ["number"], name=_TABLE)
    table = created(target, shape)
    column, type_oid = table.column("value"), shape.columns[1].type_oid
    assert column is not None
    target.values.check_column(type_oid, column)
    refused: list[str] = []
    kept: list[Row] = [("0", None)]
    for number, text in enumerate(EDGES[kind], start=1):
        try:
            target.values.bind_values(type_oid, column, decoded(target, type_oid, [text]))
            kept.append((str(number), text))
        except UnsupportedValue:
            refused.append(text)
    with target.begin() as connection:
        insert(target, connection, shape, *kept)
    found = set(stored(target, shape))
    changed = [text for _, text in set(kept) - found]
    if changed or len(found) != len(kept):
        return "fails", f"come back changed: {', '.join(map(repr, changed))}"
    return ("refused", f"{', '.join(map(repr, refused))}") if refused else _HOLDS


# Transactions -------------------------------------------------------------------------------------

_PLAIN: Final = shape_of({"a": "integer", "b": "text"}, ["a"], name=_TABLE)


class _CutOff(Exception):
    pass


def _rollback(target: Target) -> _Found:
    created(target, _PLAIN)
    with suppress(_CutOff), target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
        raise _CutOff
    return _HOLDS if not stored(target, _PLAIN) else ("fails", "a rollback leaves rows")


def _savepoint(target: Target) -> _Found:
    if not target.capabilities.savepoints:
        return "refused", "no savepoints: changes are examined before they are written"
    created(target, _PLAIN)
    with target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
        with suppress(_CutOff), connection.begin_nested():
            insert(target, connection, _PLAIN, ("2", "y"))
            raise _CutOff
        insert(target, connection, _PLAIN, ("3", "z"))
    return _HOLDS if stored(target, _PLAIN) == [("1", "x"), ("3", "z")] else ("fails", "a part is not undone")


def _isolation(target: Target) -> _Found:
    created(target, _PLAIN)
    with target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
        seen = stored(target, _PLAIN)
    return _HOLDS if not seen else ("fails", "others see rows before the commit")


def _constraint(row: tuple[str | None, str], sqlstate: str, target: Target) -> _Found:
    created(target, _PLAIN)
    with target.begin() as connection:
        insert(target, connection, _PLAIN, ("1", "x"))
    try:
        with target.begin() as connection:
            insert(target, connection, _PLAIN, row)
    except ConflictError as error:
        return _HOLDS if error.sqlstate == sqlstate else ("refused", f"its SQLSTATE is {error.sqlstate}")
    return "fails", "the row is accepted"


# Replication --------------------------------------------------------------------------------------

_History: TypeAlias = tuple[Callable[[Session], object], ...]

_COLUMNS: Final = {"a": "integer", "b": "text", "n": "numeric", "d": "double precision"}
_INSERTS: Final[_History] = (
    lambda session: session.insert(_TABLE, a=1, b="Ä ", n="1.50", d=0.1),
    lambda session: session.insert(_TABLE, a=2, b=None, n=None, d=None),
    lambda session: session.insert(_TABLE, a=3, b="", n="-0.001", d=1e300),
)
_CHANGES: Final[_History] = (
    lambda session: session.update(_TABLE, {"a": 1}, b="Ä"),
    lambda session: session.update(_TABLE, {"a": 2}, a=20),
    lambda session: session.delete(_TABLE, {"a": 3}),
    lambda session: session.insert(_TABLE, a=3, b="again"),
)
_LAST: Final[_History] = (
    lambda session: session.truncate(_TABLE),
    lambda session: session.insert(_TABLE, a=9, b="new"),
)


def _publisher(*, key: bool = True) -> MemoryDatabase:
    publisher = MemoryDatabase()
    publisher.create_table(_TABLE, _COLUMNS, primary_key=["a"] if key else [])
    publisher.create_publication(Publication(_PUBLICATION, all_tables=True))
    if not key:
        publisher.session().replica_identity(_TABLE, "full")
    return publisher


def _create(target: Target, *, key: bool = True) -> PublisherTable:
    shape = shape_of(_COLUMNS, ["a"] if key else [], name=_TABLE)
    created(target, shape)
    return shape


def _subscribed(target: Target, publisher: MemoryDatabase, folder: Path | None = None) -> InProcessSubscription:
    return InProcessSubscription(publisher, target, stream_options([_PUBLICATION]), folder=folder)


def _rows(target: Target, publisher: MemoryDatabase) -> tuple[list[str], list[str]]:
    """The rows of the publisher and those of the target, as texts that can be compared."""
    shape = shape_of(_COLUMNS, name=_TABLE)
    with target.reporting(), target.engine.connect() as connection:
        found = [dict(zip(_COLUMNS, row, strict=True)) for row in read_target_rows(target, connection, shape)]
    return sorted(map(repr, publisher.select(_TABLE))), sorted(map(repr, found))


def _replicated(history: _History, key: bool, together: bool, target: Target) -> _Found:
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
    return _HOLDS if here == there else ("fails", "the rows differ")


def _key_that_exists(target: Target) -> _Found:
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
    return _HOLDS if here == there else ("fails", "the rows differ after the conflict is gone")


def _missing_row(target: Target) -> _Found:
    """C18: it is counted and skipped."""
    publisher = _publisher()
    shape = _create(target)
    with _subscribed(target, publisher) as subscription:
        _write(publisher)
        subscription.catch_up()
        table = reflected(target, shape)
        with target.begin() as connection:
            target.writing.delete_all(connection, table)
        publisher.session().update(_TABLE, {"a": 1}, b="changed")
        publisher.session().delete(_TABLE, {"a": 2})
        subscription.catch_up()
    return _HOLDS if not _rows(target, publisher)[1] else ("fails", "a missing row is written")


def _progress(target: Target) -> _Found:
    """C32: what was applied is not applied again, whoever tries."""
    publisher = _publisher()
    _create(target)
    with _subscribed(target, publisher) as subscription:
        _write(publisher)
        reached = subscription.catch_up().progress
        again = ExactApplier(target, subscription="conformance", subid=1)
        with suppress(ProgressConflict):
            emulate(subscription.journal, again, INVALID_LSN, reached)
        with target.begin() as connection:
            if OriginProgress(1).read(connection) != reached:
                return "fails", "the progress has moved without its data"
    here, there = _rows(target, publisher)
    return _HOLDS if here == there else ("fails", "a batch is applied twice")


# Crashes ------------------------------------------------------------------------------------------


def _killed(moment: str, target: Target) -> _Found:
    """any_crash: the process is killed at the commit of the second batch."""
    publisher = _publisher()
    _create(target)
    with tempfile.TemporaryDirectory(prefix="subscriber-conformance-") as folder:
        target.engine.dispose()  # some databases let one process in
        url = target.url.render_as_string(hide_password=False)
        armed = {failpoints.ENVIRONMENT: f"target.commit.{moment}=kill@2"}
        process = multiprocessing.get_context("spawn").Process(target=_apply_until_killed, args=(url, folder, armed))
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
        emulate(journal, ExactApplier(target, subscription="conformance", subid=1), start)
    here, there = _rows(target, publisher)
    return _HOLDS if here == there else ("fails", "the rows differ after a restart")


def _write(publisher: MemoryDatabase, after: Callable[[], object] = lambda: None) -> None:
    """Each INSERT in a transaction of its own."""
    for change in _INSERTS:
        change(publisher.session())
        after()


def _apply_until_killed(url: str, folder: str, armed: dict[str, str]) -> None:
    """In a process of its own: receive everything, and apply it transaction by transaction."""
    publisher = _publisher()
    with open_target(url) as target, _subscribed(target, publisher, Path(folder)) as subscription:
        _write(publisher, subscription.receive)  # an entry of its own for each
        failpoints.arm(armed)
        for _ in _INSERTS:
            subscription.apply(max_bytes=1)
    os._exit(0)


_CHECKS: Final = (
    *(_Check("values", kind, partial(_values, kind)) for kind in EDGES),
    _Check("transactions", "all or nothing", _rollback),
    _Check("transactions", "a part is undone", _savepoint),
    _Check("transactions", "nothing is seen before the commit", _isolation),
    _Check("constraints", "a key is there", partial(_constraint, ("1", "y"), "23505")),
    _Check("constraints", "NULL in a key", partial(_constraint, (None, "y"), "23502")),
    *(
        _Check(
            "identities" if not together else "commit order",
            f"{'primary key' if key else 'full'}, {'one transaction' if together else 'transaction by transaction'}",
            partial(_replicated, _INSERTS + _CHANGES + _LAST, key, together),
        )
        for together in (False, True)
        for key in (True, False)
    ),
    _Check("conflicts", "insert_exists", _key_that_exists),
    _Check("conflicts", "update_missing, delete_missing", _missing_row),
    _Check("progress", "nothing is applied twice", _progress),
    _Check("crashes", "killed before the commit", partial(_killed, "before")),
    _Check("crashes", "killed after the commit", partial(_killed, "after")),
)
_QUICK: Final = tuple(check for check in _CHECKS if check.area != "crashes")
