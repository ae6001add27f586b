"""The list of scenarios that are known to fail."""

from __future__ import annotations

import pytest

from subscriber.base.errors import ScenarioError
from subscriber.testing.library import Expected, ExpectedFailures, judge, read_expected_failures
from subscriber.testing.run_session import Exchange, Result
from subscriber.testing.session.session_file import parse_scenario
from subscriber.testing.stage import Setup

ENTRY = """
[[expected]]
subscriber = "sqlite"
issue = 4
reason = "no ALTER SUBSCRIPTION yet"
scenarios = ["601_refresh", "602_rename"]
"""
SCENARIO = parse_scenario("-- t\ntest_pub=# SELECT 1;\n", "601_refresh")
WHY = Expected("no ALTER SUBSCRIPTION yet", 4)
LISTED: ExpectedFailures = {("601_refresh", "sqlite", "server"): WHY}


@pytest.fixture
def library(tmp_path):
    for name in ("601_refresh", "602_rename"):
        (tmp_path / f"{name}.psql").touch()

    def with_list(text):
        (tmp_path / "expected_failures.toml").write_text(text)
        return tmp_path

    return with_list


def result(subscriber="sqlite", publications="server", *, difference="", skipped=""):
    exchanges = () if skipped else (Exchange(SCENARIO.statements[0], "", difference=difference),)
    return Result(SCENARIO, Setup(subscriber, 18, publications), exchanges, 0.0, skipped=skipped)


def test_every_scenario_of_an_entry_is_listed_whoever_filters(library):
    found = read_expected_failures(library(ENTRY))
    names, both = ("601_refresh", "602_rename"), ("server", "emulated")
    assert found == {(name, "sqlite", publications): WHY for name in names for publications in both}


def test_an_entry_may_be_about_emulated_publications_only(library):
    found = read_expected_failures(library(f'{ENTRY}publications = "emulated"\n'))
    assert {publications for _, _, publications in found} == {"emulated"}


def test_an_entry_may_be_about_the_nature_of_several_targets(library):
    entry = ENTRY.replace('"sqlite"', '["sqlite", "duckdb"]').replace("issue = 4", "")
    found = read_expected_failures(library(entry))
    assert {subscriber for _, subscriber, _ in found} == {"sqlite", "duckdb"}
    assert {why.until for why in found.values()} == {"by the target's nature"}
    assert WHY.until == "until issue 4 is done"


def test_a_library_without_a_list_expects_no_failure(tmp_path):
    assert read_expected_failures(tmp_path) == {}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[expected]", "does not parse"),
        (
            ENTRY.replace("reason =", "because ="),
            "must have exactly reason, scenarios, subscriber, and may have issue, publications",
        ),
        (ENTRY + "typo = 1", "must have exactly"),
        (ENTRY + 'publications = "none"', "publications is one of server, emulated"),
        (ENTRY.replace("602_rename", "603_gone"), 'there is no scenario "603_gone"'),
        (ENTRY + ENTRY, 'scenario "601_refresh" is listed twice for "sqlite"'),
    ],
)
def test_a_list_that_does_not_tell_the_truth_is_refused(library, text, complaint):
    with pytest.raises(ScenarioError, match=complaint) as refused:
        read_expected_failures(library(text))
    assert str(refused.value.context).endswith("expected_failures.toml")


def test_a_listed_scenario_may_fail():
    assert judge(result(difference="- a"), LISTED) == "failed as expected"


def test_a_listed_scenario_that_passes_fails_the_run():
    assert judge(result(), LISTED) == "passed unexpectedly"


@pytest.mark.parametrize("setup", [("native", "server"), ("sqlite", "emulated")])
def test_the_list_is_about_one_subscriber_only_and_about_who_filters(setup):
    assert judge(result(*setup, difference="- a"), LISTED) == "failed"


def test_a_listed_scenario_that_was_not_run_is_skipped():
    assert judge(result(skipped="needs PostgreSQL 19"), LISTED) == "skipped"
