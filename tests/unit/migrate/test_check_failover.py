"""The findings about a failover of publishers of any version."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.migrate.check_publisher import of_readiness, without_failover
from subscriber.publisher.failover import FailoverProblem, Readiness
from tests.unit.migrate.test_check_publisher import READY

UPGRADE = "Upgrade the publisher to PostgreSQL 17 or newer, which synchronizes slots to standbys."


@pytest.mark.parametrize(
    ("readiness", "found"),
    [
        (Readiness(("b:1", "c:1"), ()), ("INFO", "failover", "ready at b:1, c:1", None)),
        (
            Readiness(("b:1",), (FailoverProblem("b:1", "off", "Why.", "How."),)),
            ("WARN", "failover to b:1", "off", "How."),
        ),
    ],
)
def test_each_problem_of_a_failover_is_one_finding_with_its_remedy(readiness, found):
    (finding,) = of_readiness(readiness)
    assert (finding.severity, finding.object, finding.message, finding.remedy) == found


def test_where_no_standby_answers_there_is_a_query_to_ask_it():
    (finding,) = of_readiness(Readiness((), ()))
    assert finding.severity == "INFO"
    assert "synced AND NOT temporary AND invalidation_reason IS NULL" in str(finding.remedy)


@pytest.mark.parametrize(
    ("version", "hosts", "patroni", "found"),
    [
        (180004, 1, False, []),
        (160000, 2, False, [("failover", UPGRADE)]),
        (180004, 2, False, [("failover", "Create the subscription with failover = true.")]),
        (
            160000,
            1,
            True,
            [("Patroni", "Name the subscription's slot under slots: (patronictl edit-config).")],
        ),
    ],
)
def test_a_subscription_without_failover_is_told_what_its_publisher_can(version, hosts, patroni, found):
    facts = replace(READY, version=version, is_managed_by_patroni=patroni)
    findings = list(without_failover(facts, hosts, "s", None))
    assert [(one.object, one.remedy) for one in findings] == found
    assert all(one.severity == "WARN" for one in findings)
