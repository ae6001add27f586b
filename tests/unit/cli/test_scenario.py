"""``subscriber scenario``: its arguments, and what it prints of results. What it runs:
tests/conformance/test_scenario_runs.py.
"""

from __future__ import annotations

import pytest

from subscriber.cli.scenario import _as_json, _failure_lines, _print_result, _summary
from subscriber.testing.library import Expected, expected_key, read_scenario
from subscriber.testing.stage import Setup
from tests.sessions import CREATE_SUBSCRIPTION, FILTERED, ORDERED, played, session

SQLITE = Setup("sqlite", 18)
BROKEN = played(
    session(),
    SQLITE,
    {ORDERED: " a | b \n---+---\n 1 | x\n(1 row)"},
    leftover="subscription s is left",
)


def test_a_template_is_a_valid_scenario(run, tmp_path):
    ended = run("scenario", "new", "101_filter", "--folder", str(tmp_path))
    path = tmp_path / "101_filter.psql"
    assert (ended.code, ended.err) == (0, "")
    assert str(path) in ended.out
    assert read_scenario(path).name == "101_filter"


def test_a_scenario_is_not_overwritten(run, tmp_path):
    (tmp_path / "101.psql").write_text("mine")
    ended = run("scenario", "new", "101.psql", "--folder", str(tmp_path))
    assert ended.code == 1
    assert "101.psql already exists" in ended.err
    assert (tmp_path / "101.psql").read_text() == "mine"


@pytest.mark.parametrize("name", ["../101", "a b", "-a", "a.b", ""])
def test_a_path_is_refused_as_a_name(run, tmp_path, name):
    ended = run("scenario", "new", "--folder", str(tmp_path), "--", name)
    assert ended.code == 1
    assert "is not a valid name for a scenario" in ended.err


def test_output_is_recorded_with_one_version(run, tmp_path):
    ended = run("scenario", "record", "--pg", "18", "--pg", "17", str(tmp_path))
    assert ended.code == 2
    assert "--pg can be given only once" in ended.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--subscriber", "oracle"), "oracle"),
        (("--subscriber", "native", "--publications", "emulated"), "cannot evaluate publications"),
        (("--timeout", "0"), "--timeout"),
        (("--publications", "nobody"), "--publications"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_scenario_that_cannot_run_is_refused_before_a_server_starts(run, tmp_path, options, said):
    (tmp_path / "101.psql").write_text("-- Nothing\ntest_pub=# SELECT 1;\n")
    ended = run("scenario", "run", str(tmp_path), *options)
    assert ended.code in (1, 2)
    assert said in ended.err
    assert "Traceback" not in ended.err


def test_a_path_without_scenarios_is_an_error(run, tmp_path):
    ended = run("scenario", "run", str(tmp_path / "absent"))
    assert ended.code == 1
    assert str(tmp_path / "absent") in ended.err


# What is printed ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdicts", "summary"),
    [
        ([], "0 passed, 0 failed"),
        (["passed", "passed"], "2 passed, 0 failed"),
        (["passed", "failed", "passed unexpectedly"], "1 passed, 2 failed"),
        (["passed", "skipped"], "1 passed, 0 failed, 1 skipped"),
        (["passed", "failed as expected"], "1 failed as expected\n1 passed, 0 failed"),
    ],
    ids=str,
)
def test_the_results_are_counted(verdicts, summary):
    assert _summary(verdicts) == summary


def test_a_failure_is_shown_with_its_statement_and_the_difference():
    first, *difference, last = _failure_lines(BROKEN)
    assert first == f"line {ORDERED}, test_sub: SELECT * FROM t ORDER BY a;"
    assert any("2 | y" in line for line in difference)
    assert last == "subscription s is left"


def test_a_statement_of_several_lines_is_shown_by_its_first():
    result = played(session(), SQLITE, ended_at=CREATE_SUBSCRIPTION, error="it did not end in 60 s")
    first, second, *_ = _failure_lines(result)
    assert first == f"line {CREATE_SUBSCRIPTION}, test_sub: CREATE SUBSCRIPTION s …"
    assert second == "  it did not end in 60 s"


def test_a_result_has_one_line_and_a_failure_has_several(capsys):
    _print_result(played(session(), SQLITE), "passed", {})
    assert capsys.readouterr().out.split() == ["passed", *str(SQLITE).split(), "101_filter", "1.2", "s"]
    _print_result(BROKEN, "failed", {})
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(list(_failure_lines(BROKEN)))


def test_a_failure_that_is_expected_is_shown_with_its_reason(capsys):
    expected = {expected_key(BROKEN): Expected("SQLite has no such type", 7)}
    _print_result(BROKEN, "failed as expected", expected)
    assert capsys.readouterr().out.splitlines()[1] == "    until issue 7 is done: SQLite has no such type"


def test_a_scenario_that_passes_unexpectedly_is_to_be_removed_from_the_list(capsys):
    _print_result(played(session(), SQLITE), "passed unexpectedly", {})
    assert capsys.readouterr().out.splitlines()[1] == "    remove it from expected_failures.toml"


def test_json_has_the_failures_with_what_was_expected_and_what_was_printed():
    found = _as_json(BROKEN, "failed")
    assert {key: found[key] for key in ("scenario", "subscriber", "postgresql", "publications", "verdict")} == {
        "scenario": "101_filter",
        "subscriber": "sqlite",
        "postgresql": 18,
        "publications": "server",
        "verdict": "failed",
    }
    assert (found["seconds"], found["skipped"], found["leftover"]) == (1.25, None, "subscription s is left")
    (failure,) = found["failures"]
    assert (failure["line"], failure["node"], failure["error"]) == (ORDERED, "test_sub", None)
    assert failure["actual"] == [" a | b ", "---+---", " 1 | x", "(1 row)"]
    assert failure["expected"][-1] == "(2 rows)"


def test_json_of_a_scenario_that_passed_has_no_failures():
    assert _as_json(played(session(), SQLITE, {FILTERED: " a\n---\n 2\n(1 row)"}), "passed")["failures"] == []
