"""What a journal says about the publications by which its changes were applied."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.earlier_tables import EarlierTable
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.publication_history import (
    PUBLICATIONS_FILE,
    PublicationHistory,
    read_publication_history,
    record_publishing,
)
from subscriber.stream.journal.control import read_control, write_control
from subscriber.stream.journal.storage import LocalStorage, Storage
from tests.journals import three_transactions
from tests.publications import as_sent, entry, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
ONE = Publishing((Publication("p", tables=(entry(T, "(a > 1)", ["a"]),)),), tables(T))
TWO = Publishing((Publication("p", all_tables=True, publish=frozenset({"insert"})),), tables(T))


@pytest.fixture
def storage(tmp_path) -> Storage:
    three_transactions(tmp_path)
    return LocalStorage(tmp_path)


def history(storage: Storage) -> PublicationHistory:
    found = read_publication_history(storage)
    assert found is not None
    return found


def test_a_change_was_applied_by_the_last_publications_recorded_before_it(storage):
    record_publishing(storage, ONE, LSN(0x100))
    record_publishing(storage, TWO, LSN(0x200))
    record_publishing(storage, None, LSN(0x300))
    found = history(storage)
    assert [found.at(LSN(lsn)) for lsn in (0x101, 0x200, 0x201, 0x300, 0x301)] == [ONE, ONE, TWO, TWO, None]
    ends = np.array([0x180, 0x200, 0x280, 0x400])
    assert list(found.divided(ends)) == [(slice(0, 2), ONE), (slice(2, 3), TWO), (slice(3, 4), None)]
    assert found.within(LSN(0x200), LSN(0x300)) == [TWO]


def test_everything_that_decides_what_is_published_is_read_back(storage):
    publishing = replace(
        ONE,
        publications=(*ONE.publications, replace(TWO.publications[0], schemas=("s",), excepted=(("s", "x"),))),
        settled=frozenset({as_sent(T)}),
        earlier=(EarlierTable((T,), since=5, changed_by=700, was_elsewhere=True, ends=(7, 9)),),
    )
    record_publishing(storage, publishing, LSN(0x100))
    assert history(storage).at(LSN(0x200)) == publishing


def test_what_was_applied_before_the_first_record_is_refused(storage):
    record_publishing(storage, ONE, LSN(0x200))
    with pytest.raises(NotSupportedError, match="up to 0/200 were applied") as caught:
        history(storage).at(LSN(0x200))
    assert caught.value.hint is not None
    assert 'option("startingLsn", "0/200")' in caught.value.hint
    with pytest.raises(NotSupportedError, match="up to 0/200 were applied"):
        list(history(storage).divided(np.array([0x150, 0x250])))


def test_publications_that_were_never_applied_are_replaced(storage):
    """A run that has ended before it applied anything was at the same LSN when it started again."""
    record_publishing(storage, ONE, LSN(0x100))
    record_publishing(storage, TWO, LSN(0x200))
    record_publishing(storage, ONE, LSN(0x200))
    assert [one.since for one in history(storage).versions] == [0x100]


def test_a_start_without_a_change_writes_nothing(storage):
    record_publishing(storage, ONE, LSN(0x100))
    before = (storage.folder / PUBLICATIONS_FILE).stat().st_ino
    record_publishing(storage, ONE, LSN(0x100))
    record_publishing(storage, ONE, LSN(0x300))
    assert (storage.folder / PUBLICATIONS_FILE).stat().st_ino == before


def test_versions_whose_changes_were_trimmed_are_removed(storage):
    record_publishing(storage, ONE, LSN(0x100))
    record_publishing(storage, TWO, LSN(0x200))
    control = read_control(storage)
    assert control is not None
    write_control(storage, control.moved(begin=LSN(0x200)))
    record_publishing(storage, ONE, LSN(0x300))
    assert [one.since for one in history(storage).versions] == [0x200, 0x300]


def test_a_journal_that_the_server_has_always_filtered_has_no_record(storage):
    record_publishing(storage, None, LSN(0x100))
    assert read_publication_history(storage) is None


@pytest.mark.parametrize("content", [b"", b"[]", json.dumps({"versions": []}).encode()])
def test_a_record_that_cannot_be_read_is_refused_and_is_replaced_by_the_next_start(storage, content):
    storage.replace(PUBLICATIONS_FILE, content, durable=False)
    with pytest.raises(UsageError, match="is no record of publications"):
        read_publication_history(storage)
    record_publishing(storage, ONE, LSN(0x200))
    assert history(storage).at(LSN(0x300)) == ONE
    storage.replace(PUBLICATIONS_FILE, content, durable=False)
    record_publishing(storage, None, LSN(0x200))
    assert read_publication_history(storage) is None
