"""``subscriber check`` without a server. With one: tests/conformance/test_migration_check.py."""

from __future__ import annotations

import json

import pytest

from subscriber.cli.check import _lines
from subscriber.migrate.findings import Finding
from tests.subscriptions import NOWHERE


@pytest.fixture
def missing(tmp_path) -> str:
    return f"sqlite:///{tmp_path / 'missing.db'}"


@pytest.mark.parametrize(
    "arguments",
    [(), (NOWHERE,), ("--subscription", "s", NOWHERE, "p"), ("--subscription", "s", "--with", "binary")],
    ids=["nothing", "no publication", "both", "options of a subscription that exists"],
)
def test_what_is_to_be_checked_is_named_once(run, missing, arguments):
    ended = run("check", "--target", missing, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "--subscription" in ended.err


@pytest.mark.parametrize(
    ("options", "message"),
    [("binary = maybe", "binary requires a Boolean value"), ("nonsense = 1", "unrecognized subscription parameter")],
)
def test_options_are_read_as_create_subscription_reads_them(run, missing, options, message):
    ended = run("check", "--target", missing, "--with", options, NOWHERE, "p")
    assert ended.code == 1
    assert message in ended.err


def test_a_subscription_that_does_not_exist_is_an_error_and_no_file_is_created(run, missing, tmp_path):
    ended = run("check", "--target", missing, "--subscription", "s")
    assert ended.code == 1
    assert 'subscription "s" does not exist' in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_publisher_that_does_not_answer_is_a_fail_without_its_password(run, missing, tmp_path):
    ended = run("check", "--target", missing, "--json", f"{NOWHERE} password=hush", "p")
    assert ended.code == 1
    (finding,) = json.loads(ended.out)
    assert (finding["severity"], finding["object"]) == ("FAIL", "CONNECTION")
    assert "hush" not in ended.out + ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_connection_string_that_is_none_is_an_error(run, missing):
    ended = run("check", "--target", missing, "no connection string", "p")
    assert ended.code == 1
    assert "invalid connection string syntax" in ended.err


def test_names_with_control_characters_stay_in_their_line():
    finding = Finding(
        severity="FAIL",
        area="tables",
        object="public.line\nbreak",
        message='column "a\tb" is "c\x1b[0m"',
        reason="1\n2",
        remedy='ALTER TABLE "public"."line\nbreak\\" SET LOGGED;',
    )
    first, *further = _lines(finding)
    assert first.endswith('  public.line\\nbreak: column "a\\tb" is "c\\x1b[0m"')
    assert further == ["        1\\n2", '        → ALTER TABLE "public".U&"line\\000Abreak\\\\" SET LOGGED;']
