"""What a step works with: the row in the catalog, and waiting."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN
from subscriber.migrate.cutover.work import CutoverOptions, StepRefusal, names_of
from tests.unit.migrate.cutover.fake_servers import FakeServers, a_work


def test_a_long_wait_tells_for_what_and_again_only_if_that_has_changed():
    told: list[str] = []
    work, _ = a_work()
    work.notify = told.append
    found = [["a"]] * 2 + [["b"]] * 100
    work.wait("stopping", lambda: work.clock() > 9, lambda: found.pop(0))
    assert told == ["stopping waits for a", "stopping waits for b"]


def test_a_wait_ends_after_the_time_limit():
    work, _ = a_work(timeout=0.5)
    with pytest.raises(UsageError, match="stopping has not ended") as caught:
        work.wait("stopping", lambda: False, list)
    assert caught.value.detail is None
    assert 0.5 <= work.clock() < 1


def test_what_is_to_be_undone_and_what_was_found_are_stored_at_once():
    work, servers = a_work()
    work.remember("fence", {"former": None})
    work.record("rows", {"t": 1})
    work.remember("fence", None)
    assert [dict(one.options) for one in servers.stored] == [{"fence": {"former": None}}] * 2 + [{}]
    assert servers.stored[-1].findings == {"rows": {"t": 1}}


def test_a_row_that_cannot_be_written_does_not_change_in_memory_either():
    work, servers = a_work()
    servers.failing["disable"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        work.save(enabled=False, state="switched")
    assert work.cutover.state == "running"


def test_a_transaction_came_if_it_was_received_or_applied_after_a_position():
    work, _ = a_work(FakeServers(last=100))
    assert work.came_after(LSN(99))
    assert not work.came_after(LSN(100))


def test_the_options_of_a_report_hold_no_connection_string():
    options = CutoverOptions(reverse_connection="password=x", fence=True)
    assert options.as_json()["fence"] is True
    assert "password" not in str(options.as_json())


def test_of_many_names_the_first_are_told():
    assert names_of(["a", "b"]) == "a, b"
    assert names_of(list("abcdefg")) == "a, b, c, d, e, and 2 more"
    assert StepRefusal("no", "do", tuple("abcdefg")).error().detail == "a; b; c; d; e; and 2 more"
