"""``subscriber cutover``: its options, and what it prints when nothing can be done."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import sqlalchemy as sa

from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.cutovers import claim_cutover, read_cutover, write_cutover
from subscriber.catalog.own_tables import LEASE
from subscriber.catalog.subscriptions import set_options
from subscriber.targets import open_target
from tests.subscriptions import NOWHERE, create_subscription


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--dry-run", "--finish"), "--dry-run, --finish and --abandon exclude each other."),
        (("--finish", "--fence", "--verify"), "--finish does not go with --fence, --verify."),
        (("--abandon", "--accept-missing", "view"), "--abandon does not go with --accept-missing."),
        (("--discard-writes",), "--discard-writes needs --abandon."),
        (("--terminate",), "--terminate needs --fence."),
        (("--reverse-connection", "host=new"), "--reverse-connection needs --reverse."),
        (("--reverse", "--reverse-connection", "hst=new"), "invalid connection string syntax"),
        (("--timeout", "soon"), '"soon" is not a time such as 60s, 5min or 500ms.'),
        (("--timeout", "9" * 30), "is longer than 30 days."),
        (("--timeout", "0s"), '"0s" is not a time'),
        ((), "Missing argument 'SUBSCRIPTION'"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(run, target, options, said):
    names = ("s",) if options else ()
    code, _, err = run("cutover", "--target", target, *options, *names)
    assert code == 2
    assert said in err


@pytest.mark.parametrize("option", [(), ("--dry-run",), ("--finish",), ("--abandon",)])
def test_an_unknown_subscription_is_an_error_and_creates_nothing(run, target, tmp_path, option):
    code, _, err = run("cutover", "--target", target, "s", *option)
    assert code == 1
    assert 'ERROR:  subscription "s" does not exist' in err
    assert "HINT:  There is no file" in err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def subscribed(target):
    with open_target(target) as opened:
        ensure_catalog(opened.engine)
        create_subscription(opened, conninfo=NOWHERE)
    return target


def stored(target):
    with open_target(target) as opened, opened.engine.connect() as connection:
        return read_cutover(connection, 1)


@pytest.mark.parametrize("option", ["--finish", "--abandon"])
def test_without_a_cutover_there_is_nothing_to_end(run, subscribed, option):
    code, _, err = run("cutover", "--target", subscribed, "s", option)
    assert code == 1
    assert 'no cutover of subscription "s" is in progress' in err
    assert "Begin one: subscriber cutover s" in err


def test_a_publisher_that_is_away_is_told_with_the_way_on_and_the_report_and_leaves_no_trace(run, subscribed, tmp_path):
    folder = tmp_path / "report"
    code, out, err = run("cutover", "--target", subscribed, "s", "--report", str(folder))
    assert code == 1
    assert "could not connect to the publisher" in err
    assert "Nothing was changed. To begin again: subscriber cutover s\n" in out
    (data,) = folder.glob("*.json")
    content = json.loads(data.read_text())
    assert content["steps"][0]["status"] == "failed"
    assert "could not connect to the publisher" in content["error"]
    assert content["state"] == "not begun"
    assert stored(subscribed) is None


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_done(run, subscribed, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = run("cutover", "--target", subscribed, "s", "--report", str(tmp_path / "file" / "report"))
    assert code == 1
    assert "no report can be written" in err
    assert "Nothing was done." in err
    assert out == ""


def test_dropping_a_subscription_in_a_cutover_tells_what_stays_or_is_refused(run, subscribed):
    with open_target(subscribed) as opened, opened.begin() as connection:
        begun = claim_cutover(connection, "s", 1)
        fence = {"database": "shop", "former": None, "since": None}
        held = replace(begun, options={"fence": fence, "reverse": {"name": "back"}})
        write_cutover(connection, held, "s")
        connection.execute(sa.update(LEASE).values(processid=os.getppid()))
        set_options(connection, 1, {"slot_name": None})
    code, _, err = run("sql", "--target", subscribed, "-c", "DROP SUBSCRIPTION s")
    assert code == 1
    assert 'another command carries out a cutover of subscription "s"' in err
    with open_target(subscribed) as opened, opened.begin() as connection:
        connection.execute(sa.delete(LEASE))
    code, _, err = run("sql", "--target", subscribed, "-c", "DROP SUBSCRIPTION s")
    assert code == 0, err
    assert (
        'run at the publisher: BEGIN READ WRITE; ALTER DATABASE "shop" RESET default_transaction_read_only; COMMIT;'
        in err
    )
    assert 'DROP SUBSCRIPTION "back";' in err


def test_a_dry_run_stores_nothing_and_prints_json(run, subscribed):
    code, out, _ = run("cutover", "--target", subscribed, "s", "--dry-run", "--json")
    assert code == 1
    assert json.loads(out)["steps"][0]["status"] == "would refuse"
    assert stored(subscribed) is None
