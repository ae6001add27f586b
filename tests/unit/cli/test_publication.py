"""``subscriber publication import``. With a server that answers:
tests/conformance/test_publication_commands.py.
"""

from __future__ import annotations

import pytest

from tests.subscriptions import NOWHERE


@pytest.mark.parametrize(
    ("arguments", "missing"),
    [(("p",), "--connection"), (("--connection", NOWHERE), "NAME"), (("--connection", NOWHERE, "p"), "--target")],
    ids=["no connection string", "no name", "no target"],
)
def test_a_missing_argument_is_named(run, target, monkeypatch, arguments, missing):
    monkeypatch.delenv("SUBSCRIBER_TARGET", raising=False)
    given = () if missing == "--target" else ("--target", target)
    ended = run("publication", "import", *given, *arguments)
    assert ended.code == 2
    assert missing in ended.err


def test_a_server_that_does_not_answer_is_an_error_without_its_password(run, target):
    ended = run("publication", "import", "--target", target, "--connection", f"{NOWHERE} password=hush", "p")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("ERROR:  ")
    assert "hush" not in ended.err
    assert "Traceback" not in ended.err
