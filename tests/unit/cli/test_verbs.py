"""What all verbs have in common: help, usage errors and settings."""

from __future__ import annotations

import pytest

from subscriber.cli import VERBS


def test_help_lists_the_verbs(run):
    code, out, _ = run("--help")
    assert code == 0
    assert [verb for verb in ("demo", "journal", "run", "sql", "status") if verb not in out] == []


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_exists_and_has_help(run, verb):
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert f"Usage: subscriber {verb}" in out


@pytest.mark.parametrize(
    "arguments",
    [("rnu",), ("run", "--onec"), ("sql", "--traget", "x"), ("status", "--target"), ("journal", "sl"), ("sql", "-c")],
    ids=" ".join,
)
def test_a_typo_is_a_usage_error_with_exit_code_2_and_no_traceback(run, arguments):
    code, _, err = run(*arguments)
    assert code == 2
    assert "Error" in err
    assert "Traceback" not in err


def test_a_missing_target_is_named_with_its_variable(run, monkeypatch):
    monkeypatch.delenv("SUBSCRIBER_TARGET", raising=False)
    code, _, err = run("status")
    assert code == 2
    assert "--target" in err
    assert "SUBSCRIBER_TARGET" in err


def test_a_bad_setting_is_refused_before_anything_starts(run, target, monkeypatch):
    monkeypatch.setenv("SUBSCRIBER_SEGMENT_BYTES", "many")
    code, _, err = run("run", "--target", target)
    assert code == 1
    assert 'invalid value for parameter "SUBSCRIBER_SEGMENT_BYTES"' in err
