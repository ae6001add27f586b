"""The findings about servers and roles of any kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.migrate.check_publisher import check_open_transactions, check_role, check_server
from subscriber.publisher.server_facts import DecodingSettings, ServerFacts

DECODING = DecodingSettings(
    version=180004,
    wal_level="logical",
    effective_wal_level=None,
    is_standby=False,
    output_plugin_libraries="pgoutput, test_decoding",
)
READY = ServerFacts(
    version=180004,
    server_version="18.4",
    decoding=DECODING,
    max_replication_slots=10,
    replication_slots=1,
    max_wal_senders=10,
    wal_senders=1,
    max_slot_wal_keep_size=None,
    idle_replication_slot_timeout=None,
    hot_standby_feedback=False,
    recovery_conflicts=None,
    role="r",
    may_replicate=True,
    database="shop",
    encoding="UTF8",
    is_managed_by_patroni=False,
)
STANDBY = replace(READY, decoding=replace(DECODING, is_standby=True), hot_standby_feedback=True, recovery_conflicts=0)


def found(facts: ServerFacts) -> list[tuple[str, str]]:
    return [(one.severity, one.object) for one in (*check_server(facts), *check_role(facts)) if one.severity != "INFO"]


def test_a_server_that_is_ready_has_only_facts_to_know():
    assert found(READY) == []
    assert [one.object for one in check_server(READY)] == ["server_version", "max_slot_wal_keep_size"]


def test_a_database_whose_texts_may_be_no_utf8_is_a_warning():
    assert found(replace(READY, encoding="SQL_ASCII")) == [("WARN", "server_encoding")]


@pytest.mark.parametrize(
    ("facts", "severity", "name"),
    [
        (replace(READY, version=90624), "FAIL", "server_version"),
        (replace(READY, decoding=replace(DECODING, wal_level="replica")), "FAIL", "wal_level"),
        (
            replace(READY, decoding=replace(DECODING, output_plugin_libraries="wal2json")),
            "FAIL",
            "output_plugin_libraries",
        ),
        (replace(READY, replication_slots=10), "FAIL", "max_replication_slots"),
        (replace(READY, replication_slots=8), "WARN", "max_replication_slots"),
        (replace(READY, wal_senders=10), "FAIL", "max_wal_senders"),
        (replace(READY, wal_senders=9), "WARN", "max_wal_senders"),
        (replace(READY, max_slot_wal_keep_size=64), "WARN", "max_slot_wal_keep_size"),
        (replace(READY, idle_replication_slot_timeout=60), "WARN", "idle_replication_slot_timeout"),
        (replace(READY, may_replicate=False), "FAIL", "role r"),
        (replace(STANDBY, version=150000), "FAIL", "pg_is_in_recovery"),
        (replace(STANDBY, hot_standby_feedback=False), "WARN", "hot_standby_feedback"),
        (replace(STANDBY, recovery_conflicts=3), "WARN", "pg_stat_database_conflicts"),
    ],
)
def test_each_problem_of_a_server_is_one_finding_with_a_remedy(facts, severity, name):
    assert found(facts) == [(severity, name)]
    (finding,) = (one for one in (*check_server(facts), *check_role(facts)) if one.severity != "INFO")
    assert finding.remedy


def test_a_subscription_that_has_its_slot_needs_no_free_one():
    """It is only a warning, because copies and comparisons need another one for a time."""
    facts = replace(READY, replication_slots=10)
    (finding,) = (one for one in check_server(facts, has_slot=True) if one.severity != "INFO")
    assert (finding.severity, finding.object) == ("WARN", "max_replication_slots")
    assert finding.reason == "A copy of a table and `subscriber verify` need another slot."


def test_a_standby_that_is_ready_has_no_problem():
    assert found(STANDBY) == []


def test_each_open_transaction_holds_up_the_slot():
    (finding,) = check_open_transactions(["process 7 of user u"])
    assert (finding.severity, finding.message) == ("WARN", "CREATE SUBSCRIPTION would wait for process 7 of user u")
