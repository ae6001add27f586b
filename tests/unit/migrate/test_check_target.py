"""The findings about targets and disks."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest

from subscriber.migrate.check_target import check_disk, check_journal, check_server, missing_table, unusable_file
from subscriber.targets.capabilities import Fact, Limit, TargetFacts
from tests.unit.migrate.tables import table

GIB = 1024**3


def severities(findings) -> list[tuple[str, str]]:
    return [(one.severity, one.object) for one in findings]


def test_a_missing_table_has_the_statements_that_bring_it_with_quoted_names():
    found = missing_table("My sub", "public", "Odd name")
    assert (found.severity, found.object) == ("FAIL", "public.Odd name")
    assert found.remedy == (
        'ALTER SUBSCRIPTION "My sub" REFRESH PUBLICATION; ALTER SUBSCRIPTION "My sub" REFRESH TABLE public."Odd name";'
    )


def test_the_version_is_a_fact_to_know():
    assert severities(check_server(TargetFacts(version="11.4"), "MariaDB", [table()], two_phase=False)) == [
        ("INFO", "version")
    ]


def test_the_facts_of_a_probed_database_are_listed():
    facts = TargetFacts(facts=(Fact("savepoints", False, "probe"), Fact("bigint", "INT64", "registered")))
    found = list(check_server(facts, "firebird", [], two_phase=False))
    assert [(one.object, one.message, one.reason) for one in found] == [
        ("fact savepoints", "no", "Found by: probe."),
        ("fact bigint", "INT64", "Found by: registered."),
    ]


@pytest.mark.parametrize(
    ("out_of_line", "limit", "warned"), [(1, 16 << 20, True), (0, 16 << 20, False), (1, GIB, False)]
)
def test_a_limit_of_values_matters_if_a_table_has_long_values(out_of_line, limit, warned):
    facts = TargetFacts(largest_value=Limit("max_allowed_packet", limit, "SET …"))
    found = list(check_server(facts, "MariaDB", [table(out_of_line_bytes=out_of_line)], two_phase=False))
    assert severities(found) == ([("WARN", "max_allowed_packet")] if warned else [])
    assert all("public.t" in str(one.reason) for one in found)


@pytest.mark.parametrize(("two_phase", "severity"), [(True, "FAIL"), (False, "INFO")])
def test_a_server_without_prepared_transactions_fails_only_if_they_are_wanted(two_phase, severity):
    found = check_server(
        TargetFacts(prepared_transactions=Limit("max_prepared_transactions", 0, "ALTER …")),
        "PostgreSQL",
        [],
        two_phase=two_phase,
    )
    assert severities(found) == [(severity, "max_prepared_transactions")]


@pytest.mark.parametrize(("free", "severity"), [(100_000, "FAIL"), (200_000, "WARN"), (1_000_000, "INFO")])
def test_the_disk_of_a_file_must_have_room_for_the_tables(tmp_path, monkeypatch, free, severity):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    (finding,) = check_disk(tmp_path / "t.db", [table()])
    assert finding.severity == severity
    assert (finding.remedy is None) == (severity == "INFO")


def test_the_disk_of_a_server_is_not_visible():
    (finding,) = check_disk(None, [table()])
    assert finding.severity == "INFO"
    assert "150.0 kB" in finding.message


@pytest.mark.parametrize(("free", "severity"), [(GIB - 1, "WARN"), (GIB, "INFO")])
def test_the_journals_need_room_too(tmp_path, monkeypatch, free, severity):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    (finding,) = check_journal(f"file://{tmp_path / 'not' / 'yet'}", 1)
    assert finding.severity == severity


def test_a_remote_journal_has_no_disk_of_this_machine():
    assert list(check_journal("s3://bucket/journal", 1)) == []


def test_a_journal_that_keeps_nothing_for_a_restored_target_is_said_before_the_harm():
    (finding,) = check_journal("s3://bucket/journal", 0)
    assert (finding.severity, finding.object) == ("INFO", "backup")
    assert "SUBSCRIBER_JOURNAL_KEEP_SIZE" in str(finding.remedy)


def test_an_obstacle_is_a_fail():
    assert unusable_file("There is no folder /x.").severity == "FAIL"
