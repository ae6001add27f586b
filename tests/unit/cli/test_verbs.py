"""What all verbs have in common: help, usage errors and settings."""

from __future__ import annotations

import os

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


BAD = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize(
    ("arguments", "place"),
    [((verb, BAD), "Argument 2") for verb in sorted(VERBS)]
    + [
        ((BAD,), "Argument 1"),
        (("sql", "-c", BAD), "Argument 3 (-c)"),
        (("sql", f"-c{BAD}"), "Argument 2 (-c)"),
        (("run", f"--target={BAD}"), "Argument 2 (--target)"),
        (("status", f"--{BAD}"), "Argument 2"),
        (("journal", "show", "--from", BAD), "Argument 4 (--from)"),
    ],
)
def test_a_byte_that_is_not_utf8_is_refused_with_its_place(run, arguments, place):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    at = arguments[-1].encode(errors="surrogateescape").index(b"\xe9") + 1
    said = f'Error: {place}: invalid byte sequence for encoding "UTF8": 0xe9 (byte {at})'
    assert err.splitlines()[-1] == said


def test_such_a_byte_in_a_variable_is_refused_with_the_variables_name(run, monkeypatch):
    monkeypatch.setenv("SUBSCRIBER_JOURNAL", BAD)
    code, _, err = run("journal", "ls")
    assert code == 2
    assert "Environment variable SUBSCRIBER_JOURNAL: invalid byte sequence" in err


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
