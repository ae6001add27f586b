"""A batch of the journal, applied in one process: a bad transaction does not hold back the good
ones before it, and a batch that is to end is rolled back.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from subscriber.apply.apply_batch import apply_batch
from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import (
    ConflictError,
    JournalGap,
    ProtocolError,
    RowFilterError,
    Stopped,
    UnsupportedValue,
)
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import Target, open_target
from subscriber.testing.emulate import emulate
from tests.frames import frame, transaction, values
from tests.journals import T, insert, publish, segment_files, three_transactions, writing
from tests.publications import entry, table, tables


@pytest.fixture
def target(tmp_path) -> Iterator[Target]:
    """A SQLite file with table t and the progress of origin pg_1 at 0/100."""
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(0x100))
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        yield opened


@pytest.fixture
def applier(target) -> ExactApplier:
    return ExactApplier(target, subscription="s", subid=1)


def state(target: Target) -> tuple[list[int], int]:
    """Keys of t, and the progress."""
    with target.begin() as connection:
        keys = [row[0] for row in connection.exec_driver_sql("SELECT a FROM t ORDER BY a")]
        return keys, OriginProgress(1).read(connection)


def test_a_good_batch_is_applied_once(applier, target):
    frames = [frame([T], [*transaction(0x200, insert(1)), *transaction(0x300, insert(2))])]
    result = apply_batch(applier, lambda: frames, LSN(0x100), LSN(0x300))
    assert (result.transactions, state(target)) == (2, ([1, 2], 0x300))


def bad_third() -> list[Frame]:
    messages = [*transaction(0x200, insert(1)), *transaction(0x300, insert(2)), *transaction(0x400, insert(3), insert(1)),
                *transaction(0x500, insert(5))]  # fmt: skip
    return [frame([T], messages)]


def test_the_good_prefix_is_committed_before_the_error_is_raised(applier, target):
    """Rule C35: PostgreSQL's worker would have committed each of them before it met the bad one."""
    with pytest.raises(ConflictError) as caught:
        apply_batch(applier, bad_third, LSN(0x100), LSN(0x500))
    assert caught.value.lsn == 0x3F8
    assert state(target) == ([1, 2], 0x300)


def test_once_the_obstacle_is_gone_the_rest_follows(applier, target):
    with pytest.raises(ConflictError):
        apply_batch(applier, bad_third, LSN(0x100), LSN(0x500))
    with target.begin() as connection:
        connection.exec_driver_sql("DELETE FROM t WHERE a = 1")
    result = apply_batch(applier, bad_third, LSN(0x300), LSN(0x500))
    assert (result.transactions, state(target)) == (2, ([1, 2, 3, 5], 0x500))


def test_a_bad_first_transaction_leaves_everything_as_it_was(applier, target):
    frames = [frame([T], [*transaction(0x200, insert(1), insert(1)), *transaction(0x300, insert(2))])]
    with pytest.raises(ConflictError):
        apply_batch(applier, lambda: frames, LSN(0x100), LSN(0x300))
    assert state(target) == ([], 0x100)


def test_an_error_that_cuts_the_frames_short_keeps_the_transactions_before_it(applier, target):
    """A partition that does not decode is an error in the middle of the frames."""

    def read() -> Iterator[Frame]:
        yield frame([T], [*transaction(0x200, insert(1)), *transaction(0x300, insert(2))[:-1]])
        raise UnsupportedValue("no", relation="public.t")

    with pytest.raises(UnsupportedValue):
        apply_batch(applier, read, LSN(0x100), LSN(0x300))
    assert state(target) == ([1], 0x200)


def test_a_batch_that_is_to_end_is_rolled_back_with_the_transactions_before(applier, target, tmp_path, monkeypatch):
    """Those would be committed only where a change could not be applied; here time is short."""
    monkeypatch.setattr("subscriber.apply.statements.change_statements.ROWS_AT_A_TIME", 2)

    def read() -> Iterator[Frame]:
        yield frame([T], transaction(0x200, insert(1)))
        applier.interruption.stop.set()
        yield frame([T], transaction(0x300, *(insert(number) for number in range(2, 12))))

    with pytest.raises(Stopped):
        apply_batch(applier, read, LSN(0x100), LSN(0x300))
    assert state(target) == ([], 0x100)


def test_a_batch_ends_between_a_few_rows_of_one_run_too(applier, target, monkeypatch):
    """A frame has thousands of rows, and some targets take a minute for them."""
    monkeypatch.setattr("subscriber.apply.statements.change_statements.ROWS_AT_A_TIME", 2)
    monkeypatch.setattr("subscriber.apply.writing.bulk_writer.BULK_ROWS_AT_A_TIME", 2)
    checks = iter(range(100))
    check = applier.interruption.check

    def ending() -> None:
        if next(checks) == 5:
            applier.interruption.stop.set()
        check()

    monkeypatch.setattr(applier.interruption, "check", ending)
    rows = [frame([T], transaction(0x200, *(insert(number) for number in range(1, 101))))]
    with pytest.raises(Stopped):
        apply_batch(applier, lambda: rows, LSN(0x100), LSN(0x200))
    assert next(checks) < 20, "not all of its rows were written"
    assert state(target) == ([], 0x100)


# Publications of the subscriber's own -------------------------------------------------------------

TABLE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)


def publishing(where: str) -> Publishing:
    return Publishing((Publication("p", tables=(entry(TABLE, where),)),), tables(TABLE))


def test_a_filter_that_fails_is_an_error_of_its_change_after_the_good_ones(applier, target, tmp_path):
    """Rule C35; the server's walsender would stop there."""
    folder = tmp_path / "journal"
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, T, insert(0)))
    with pytest.raises(RowFilterError, match="division by zero") as caught:
        emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100), publishing=publishing("10 / a > 1"))
    assert (caught.value.sqlstate, caught.value.relation) == ("22012", "public.t")
    assert caught.value.lsn
    sent_at = f"{caught.value.lsn >> 32:X}/{caught.value.lsn & 0xFFFFFFFF:X}"
    assert f'CONTEXT:  filtering a change of relation "public.t", sent at {sent_at}' in caught.value.report()
    assert state(target) == ([1], 0x200)


def test_what_an_insert_that_was_an_update_could_not_borrow_is_null_and_no_default(applier, target, tmp_path):
    """Rules B18, C6: as PostgreSQL 18 stores it, seen on a native subscriber whose column has a
    default.
    """
    with target.begin() as connection:
        connection.exec_driver_sql("DROP TABLE t")
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT DEFAULT 'default')")
    folder = tmp_path / "journal"
    change = m.Update(T.relation_id, "K", values("-1", None), values("1", m.UNCHANGED))
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, change))
    emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100), publishing=publishing("a > 0"))
    with target.begin() as connection:
        assert connection.exec_driver_sql("SELECT a, b FROM t").all() == [(1, None)]


# The same without Spark ---------------------------------------------------------------------------


def test_a_journal_is_applied_in_one_process(applier, target, tmp_path):
    folder = tmp_path / "journal"
    three_transactions(folder)
    reader = JournalReader(LocalStorage(folder))
    assert emulate(reader, applier, LSN(0x100), LSN(0x200)).transactions == 1
    assert state(target) == ([1], 0x200)
    assert emulate(reader, applier, LSN(0x200)).transactions == 2
    assert state(target) == ([1, 2, 3], 0x400)
    assert emulate(reader, applier, LSN(0x100), LSN(0x400)).transactions == 0


def test_a_lost_segment_is_refused_and_nothing_after_it_is_applied(applier, target, tmp_path):
    """Invariant slot_after_disk: a gap is never skipped."""
    folder = tmp_path / "journal"
    three_transactions(folder)
    segment_files(folder)[1].unlink()
    with pytest.raises(JournalGap):
        emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100))
    assert state(target) == ([], 0x100)


def test_a_journal_in_a_shape_the_target_has_not_is_refused_with_the_good_prefix_applied(applier, target, tmp_path):
    folder = tmp_path / "journal"
    with writing(folder) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1)))
        publish(journal, 0x300, transaction(0x300, T, m.Insert(T.relation_id, values("two", "x"))))
    with pytest.raises(ProtocolError, match="invalid input syntax for type integer"):
        emulate(JournalReader(LocalStorage(folder)), applier, LSN(0x100))
    assert state(target) == ([1], 0x200)
