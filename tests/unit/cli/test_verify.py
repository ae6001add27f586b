"""``subscriber verify`` without a server. With one: tests/conformance/test_verify.py."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import insert_subscription
from subscriber.cli import verify as module
from subscriber.targets import open_target
from subscriber.verify.report import DifferingKey, TableVerification, VerifyProgress, VerifyReport
from tests.subscriptions import NOWHERE

KEYS = (DifferingKey("differing", ("1", None)), DifferingKey("only_target", ("7", "x")))
TABLES = (
    TableVerification("public.a", "public.a", LSN(0x100), 3000, 3000),
    TableVerification("public.b", "new.b", LSN(0x100), 3, 3, 1, 0, 1, ("v",), KEYS, ("a note",)),
    TableVerification("public.c", "public.c", LSN(0x100), 3, 2, 0, 1, 0, repaired=1),
    TableVerification("public.d", "public.d", error="ERROR:  not ready: state d"),
)


@pytest.fixture
def answers(monkeypatch):
    """Makes the comparison return this report; returns what it was asked."""
    asked = []

    def answer(report):
        def verify(_target, name, _settings, options, _on_progress, *, stop):
            asked.append((name, options, stop.is_set()))
            return report

        monkeypatch.setattr(module, "verify_subscription", verify)
        return asked

    return answer


@pytest.fixture
def subscribed(target):
    def create(*names):
        with open_target(target) as database:
            ensure_catalog(database.engine)
            with database.begin() as connection:
                for name in names:
                    insert_subscription(connection, name, NOWHERE, ["p"], SubscriptionOptions())
        return target

    return create


def test_the_report_has_a_line_for_each_table_and_what_is_to_be_said_below(run, subscribed, answers):
    answers(VerifyReport("s", TABLES, 0.01))
    ended = run("verify", "--target", subscribed("s"))
    assert ended.code == 1
    lines = [[cell.strip() for cell in line.split("|")] for line in ended.out.splitlines() if "|" in line]
    assert lines[1:] == [
        ["public.a", "3,000", "3,000", "0", "0", "0", "0/100", "equal"],
        ["public.b => new.b", "3", "3", "1", "0", "1", "0/100", "DIFFERENT"],
        ["public.c", "3", "2", "0", "1", "0", "0/100", "repaired 1"],
        ["public.d", "-", "-", "-", "-", "-", "-", "ERROR"],
    ]
    assert "only a sample of 1% of the rows was compared" in ended.out
    assert "public.b: rows differ in v" in ended.out
    assert "public.b: differing: (1, null)" in ended.out
    assert "public.b: only in target: (7, x)" in ended.out
    assert "public.b: NOTE:  a note" in ended.out
    assert "public.d:\nERROR:  not ready: state d" in ended.out
    assert "To make the target's rows those of the publisher: subscriber verify s --repair\n" in ended.out


def test_a_key_cannot_control_the_terminal(run, subscribed, answers):
    keys = (DifferingKey("only_target", ("a\nb\x1b[31m", "\u00e4 \u4e2d")),)
    answers(VerifyReport("s", (TableVerification("public.a", "public.a", LSN(1), only_target=1, keys=keys),)))
    ended = run("verify", "--show-values", "--target", subscribed("s"))
    assert "public.a: only in target: (a\\nb\\x1b[31m, \u00e4 \u4e2d)" in ended.out


def test_a_subscription_without_tables_has_nothing_to_compare(run, subscribed, answers):
    answers(VerifyReport("s", ()))
    ended = run("verify", "--target", subscribed("s"))
    assert "the subscription has no tables: nothing was compared" in ended.out


def test_options_reach_the_comparison_and_equal_tables_end_with_0(run, subscribed, answers):
    asked = answers(VerifyReport("s", TABLES[:1]))
    arguments = [
        "--table",
        "a",
        "--table",
        "public.b",
        "--sample",
        "2.5%",
        "--repair",
        "--show-values",
        "--processes",
        "3",
        "--json",
        "t",
    ]
    ended = run("verify", "--target", subscribed("s", "t"), *arguments)
    assert ended.code == 0
    assert json.loads(ended.out)["equal"]
    ((name, options, stopped),) = asked
    assert (name, options.tables, options.sample, stopped) == ("t", ("a", "public.b"), 0.025, False)
    assert (options.repair, options.show_values, options.processes) == (True, True, 3)


def test_a_command_that_repairs_or_finds_nothing_does_not_propose_a_repair(run, subscribed, answers):
    target = subscribed("s")
    answers(VerifyReport("s", TABLES[1:2]))
    assert "To make" not in run("verify", "--repair", "--target", target).out
    answers(VerifyReport("s", TABLES[:1]))
    assert "To make" not in run("verify", "--target", target).out


@pytest.mark.parametrize("share", ["1", "0%", "101%", "-1%", "much"])
def test_a_sample_is_a_percentage(run, target, share):
    ended = run("verify", "--target", target, "--sample", share)
    assert ended.code == 2
    assert "is not a percentage" in ended.err


def test_a_subscription_is_named_unless_there_is_only_one(run, subscribed, answers):
    answers(VerifyReport("s", ()))
    ended = run("verify", "--target", subscribed("s", "t"))
    assert ended.code == 2
    assert "Name one of the subscriptions: s, t." in ended.err


def test_without_a_subscription_there_is_an_error_and_no_file_is_created(run, tmp_path):
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    ended = run("verify", "--target", missing)
    assert (ended.code, "there is no subscription to verify" in ended.err) == (1, True)
    assert f"HINT:  There is no file {tmp_path / 'missing.db'}. Is the target URL correct?" in ended.err
    ended = run("verify", "--target", missing, "s")
    assert (ended.code, 'subscription "s" does not exist' in ended.err) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_shows_a_bar_for_each_large_table(tmp_path):
    with (tmp_path / "out").open("w") as out:
        with module._progress_bar(Console(file=out, force_terminal=True)) as show:
            assert show is not None
            show(VerifyProgress("public.a", 10, 5, 200_000))
            show(VerifyProgress("public.b", 1, 0, 0))
            show(VerifyProgress("public.a", 20, 20, 200_000))
        with module._progress_bar(Console(file=out, force_terminal=False)) as nothing:
            assert nothing is None
    assert "public.a" in (tmp_path / "out").read_text()
    assert "public.b" not in (tmp_path / "out").read_text()
