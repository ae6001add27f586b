"""A standby that could take the slot over, and the reasons why one could not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.publisher.failover import FailoverServer, FailoverSlot, judge_readiness

PRIMARY = FailoverServer(
    place="a:1",
    timeline=1,
    slot=FailoverSlot(failover=True, synced=False, temporary=False, lost=None),
    failover_slots=frozenset({"s", "other"}),
    own_slots=frozenset({"s", "other"}),
    synchronized_standby_slots=("b",),
    physical_slots={"b": True},
)
STANDBY = FailoverServer(
    place="b:1",
    is_standby=True,
    slot=FailoverSlot(failover=True, synced=True, temporary=False, lost=None),
    failover_slots=frozenset({"s", "other"}),
    primary_slot_name="b",
    names_database=True,
)


def messages(*servers: FailoverServer, slot: str | None = "s") -> list[str]:
    return [problem.message for problem in judge_readiness("s", slot, servers).problems]


def test_a_primary_and_a_standby_that_are_ready_have_no_problem():
    readiness = judge_readiness("s", "s", [PRIMARY, STANDBY])
    assert (readiness.ready, readiness.standbys, readiness.problems) == (True, ("b:1",), ())


@pytest.mark.parametrize(
    ("standby", "message"),
    [
        (
            replace(STANDBY, slot=FailoverSlot(failover=True, synced=True, temporary=False, lost="rows_removed")),
            'replication slot "s" is invalidated: rows_removed',
        ),
        (
            replace(STANDBY, own_slots=frozenset({"other", "mine"})),
            "the standby has a slot of its own with the name of a slot of the primary: other",
        ),
        (replace(STANDBY, slot=None), 'replication slot "s" is not there'),
        (FailoverServer(place="b:1", error="Connection refused"), "the server does not answer: Connection refused"),
    ],
)
def test_each_problem_of_a_standby_is_one_with_a_remedy(standby, message):
    (problem,) = judge_readiness("s", "s", [PRIMARY, standby]).problems
    assert (problem.place, problem.message) == ("b:1", message)
    assert problem.reason
    assert problem.remedy


@pytest.mark.parametrize(
    ("temporary", "reason", "told"),
    [
        (True, None, ['replication slot "s" is temporary']),
        (
            True,
            "wal_not_flushed",
            ['replication slot "s" is temporary: the last synchronization was skipped (wal_not_flushed)'],
        ),
        (False, "wal_not_flushed", []),
        (
            False,
            "wal_or_rows_removed",
            [
                'replication slot "s" is not synchronized any more: the last synchronization was skipped (wal_or_rows_removed)'
            ],
        ),
    ],
)
def test_the_reason_for_which_19_skipped_the_synchronization_is_told(temporary, reason, told):
    slot = FailoverSlot(failover=True, synced=True, temporary=temporary, lost=None, skip_reason=reason)
    assert messages(PRIMARY, replace(STANDBY, slot=slot)) == told


def test_a_slot_that_does_not_exist_yet_is_not_missed_at_the_standby():
    """`check` before CREATE SUBSCRIPTION, and the warnings after it."""
    assert messages(replace(PRIMARY, slot=None), replace(STANDBY, slot=None), slot=None) == []
    assert messages(replace(PRIMARY, slot=None), replace(STANDBY, slot=None)) == []


def test_an_old_primary_is_judged_by_its_timeline_and_not_as_the_primary():
    old = replace(PRIMARY, place="c:1", synchronized_standby_slots=("gone",))
    new = replace(PRIMARY, timeline=2)
    assert messages(old, new, STANDBY) == ["the server is a primary on timeline 1, but a:1 is one on timeline 2"]


def test_where_no_standby_answers_it_is_not_known():
    assert judge_readiness("s", "s", [PRIMARY]).ready is None


def test_standbys_without_a_primary_are_not_ready():
    assert messages(STANDBY) == ["no host that answers is a primary"]
