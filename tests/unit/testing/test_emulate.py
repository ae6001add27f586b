"""The stages of the stream in one process: a journal in, rows of a target out."""

from __future__ import annotations

import pytest

from subscriber.apply.exact import ExactApplier
from subscriber.base.errors import ConflictError, JournalGap
from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import CATALOG
from subscriber.catalog.progress import OriginProgress
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from subscriber.targets import open_target
from subscriber.testing.emulate import emulate
from tests.journals import BEGIN, three_transactions
from tests.publications import entry, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"])


@pytest.fixture
def journal(tmp_path) -> JournalReader:
    """Three transactions, which end at 0/200, 0/300 and 0/400 and insert 1, 2 and 3."""
    three_transactions(tmp_path / "journal")
    return JournalReader(LocalStorage(tmp_path / "journal"))


@pytest.fixture
def target(tmp_path):
    with open_target(f"sqlite:///{tmp_path / 'target.db'}") as opened:
        with opened.begin() as connection:
            CATALOG.create_all(connection)
            OriginProgress(1).create(connection, LSN(BEGIN))
            connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
        yield opened


@pytest.fixture
def applier(target) -> ExactApplier:
    return ExactApplier(target, subscription="sub", subid=1)


@pytest.fixture
def keys(target):
    def read() -> list[int]:
        with target.begin() as connection:
            return [key for (key,) in connection.exec_driver_sql("SELECT a FROM t ORDER BY a")]

    return read


def test_the_whole_journal_is_one_batch(journal, applier, keys):
    result = emulate(journal, applier, LSN(BEGIN))
    assert (result.progress, result.transactions, result.changes) == (0x400, 3, 3)
    assert keys() == [1, 2, 3]


def test_a_batch_has_a_beginning_and_an_end(journal, applier, keys):
    assert emulate(journal, applier, LSN(BEGIN), LSN(0x300)).transactions == 2
    assert keys() == [1, 2]
    assert emulate(journal, applier, LSN(0x300)).transactions == 1
    assert keys() == [1, 2, 3]


def test_at_the_end_of_the_journal_there_is_nothing_to_apply(journal, applier):
    emulate(journal, applier, LSN(BEGIN))
    result = emulate(journal, applier, LSN(0x400))
    assert (result.progress, result.transactions) == (0x400, 0)


def test_emulated_publications_filter_the_changes(journal, applier, keys):
    publishing = Publishing((Publication("p", tables=(entry(T, "a <> 2"),)),), tables(T))
    assert emulate(journal, applier, LSN(BEGIN), publishing=publishing).transactions == 3
    assert keys() == [1, 3]


def test_the_transactions_before_a_failing_one_are_committed(journal, applier, target, keys):
    """C35"""
    with target.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (3, 'local')")
    with pytest.raises(ConflictError, match="insert_exists"):
        emulate(journal, applier, LSN(BEGIN))
    assert keys() == [1, 2, 3]
    assert applier.read_progress() == 0x300


def test_an_end_beyond_the_journal_is_a_gap(journal, applier, keys):
    with pytest.raises(JournalGap):
        emulate(journal, applier, LSN(BEGIN), LSN(0x500))
    assert keys() == []
