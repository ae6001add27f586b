"""The order of the steps, going on after an interruption, abandoning and finishing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.errors import PublisherUnavailable, UsageError
from subscriber.base.lsn import LSN
from subscriber.commands.refresh_sequences import UnsetSequence
from subscriber.migrate.cutover import run_cutover as cutovers
from subscriber.migrate.cutover.cutover_report import new_report
from subscriber.migrate.cutover.cutover_servers import MissingObject, VerifyResult
from tests.unit.migrate.cutover.fake_servers import FakeServers, a_work

NAMES = ["preconditions", "schema", "writes", "barrier", "sequences", "verify", "reverse", "switch"]


def carry_out(work, command="cutover"):
    report = new_report(work.servers, command)
    function = {"cutover": cutovers.run_cutover, "abandon": cutovers.abandon, "finish": cutovers.finish}[command]
    error = None
    try:
        function(work, report, lambda _: None)
    except BaseException as raised:
        error = raised
    return report, error


def again(work, **options):
    """The next command, which has nothing but the row in the catalog."""
    return a_work(work.servers, work.servers.stored[-1], **options)[0]


ALL: dict[str, Any] = {"fence": True, "verify": True, "reverse": True}


def test_the_steps_are_done_in_their_order_and_the_subscription_is_disabled_last():
    work, servers = a_work(FakeServers(way_back=True), **ALL)
    report, error = carry_out(work)
    assert error is None
    assert [step.name for step in report.steps] == NAMES
    assert {step.status for step in report.steps} == {"done"}
    assert servers.log == ["fence", "sequences", "verify", "reverse subscriber_reverse_1 None", "disable"]
    assert (report.state, servers.subscription.enabled) == ("switched", False)
    assert servers.stored[-1].switched_at is not None


def test_a_step_that_is_not_asked_for_is_left_out():
    work, _ = a_work()
    report, _ = carry_out(work)
    assert [step.name for step in report.steps] == [name for name in NAMES if name not in ("verify", "reverse")]


def test_a_dry_run_after_the_switch_says_both_ways_on_and_checks_nothing():
    work, servers = a_work()
    carry_out(work)
    work = again(work)
    report = new_report(servers, "dry run")
    assert cutovers.rehearse(work, report, lambda _: None)
    assert report.steps == []
    assert report.notes[0] == "The subscription is switched over already."
    assert "subscriber cutover s --abandon" in report.notes[-1]


def test_abandoning_undoes_the_way_back_before_it_enables_and_lifts_the_fence_last():
    work, servers = a_work(FakeServers(way_back=True, setting="off"), **ALL)
    carry_out(work)
    servers.log.clear()
    report, error = carry_out(again(work), "abandon")
    assert error is None
    assert servers.log == [
        "drained subscriber_reverse_1", "set_publisher_sequences", "drop_reverse subscriber_reverse_1", "enable",
        "lift off",
    ]  # fmt: skip
    assert (report.state, servers.subscription.enabled, servers.setting) == ("abandoned", True, "off")
    assert "fence" not in servers.stored[-1].options
    assert "reverse" not in servers.stored[-1].options


@pytest.mark.parametrize("place", ["fence", "barrier", "sequences", "verify", "reverse", "disable"])
@pytest.mark.parametrize("interruption", [PublisherUnavailable("away"), KeyboardInterrupt()], ids=["away", "Ctrl-C"])
def test_after_an_interruption_the_same_command_goes_on(place, interruption):
    work, servers = a_work(FakeServers(way_back=True), **ALL)
    servers.failing[place] = interruption
    report, error = carry_out(work)
    assert error is interruption
    assert report.steps[-1].status == ("failed" if isinstance(error, PublisherUnavailable) else "interrupted")
    assert any("The same command goes on" in note for note in report.notes)
    assert any("subscriber cutover s --fence --verify --reverse" in note for note in report.notes)
    assert any("--abandon" in note for note in report.notes)
    assert any(note.startswith("The fence stays.") for note in report.notes)
    report, error = carry_out(again(work, **ALL))
    assert error is None
    assert [step.name for step in report.steps] == NAMES
    assert report.state == "switched"


@pytest.mark.parametrize("place", ["fence", "barrier", "sequences", "verify", "reverse", "disable"])
def test_after_an_interruption_anywhere_the_state_before_is_restored(place):
    work, servers = a_work(FakeServers(way_back=True), **ALL)
    servers.failing[place] = KeyboardInterrupt()
    carry_out(work)
    report, error = carry_out(again(work), "abandon")
    assert error is None
    assert (report.state, servers.subscription.enabled, servers.setting) == ("abandoned", True, None)
    assert ("drop_reverse subscriber_reverse_1" in servers.log) == (place in ("reverse", "disable"))


def test_abandoning_may_be_interrupted_and_given_again():
    work, servers = a_work(FakeServers(way_back=True), **ALL)
    carry_out(work)
    servers.failing["enable"] = KeyboardInterrupt()
    report, error = carry_out(again(work), "abandon")
    assert isinstance(error, KeyboardInterrupt)
    assert report.notes == ["What is left is undone by the same command: subscriber cutover s --abandon"]
    assert servers.setting == "on"
    _, error = carry_out(again(work), "abandon")
    assert error is None
    assert servers.log.count("drop_reverse subscriber_reverse_1") == 1
    assert servers.subscription.enabled
    assert servers.setting is None


def test_a_former_setting_of_the_database_survives_a_fence_that_was_set_twice():
    work, servers = a_work(FakeServers(setting="off"), fence=True)
    servers.failing["fence"] = PublisherUnavailable("away")
    carry_out(work)
    servers.setting = "on"  # it was set, only the answer was lost
    carry_out(again(work, fence=True))
    carry_out(again(work), "abandon")
    assert servers.setting == "off"


def test_what_was_verified_is_kept_while_nothing_came():
    work, servers = a_work(verify=True)
    servers.failing["disable"] = KeyboardInterrupt()
    carry_out(work)
    report, _ = carry_out(again(work, verify=True))
    assert servers.log.count("verify") == 1
    assert next(step.status for step in report.steps if step.name == "verify") == "skipped"


def test_what_was_verified_is_verified_again_if_a_transaction_came():
    work, servers = a_work(verify=True)
    servers.failing["disable"] = KeyboardInterrupt()
    carry_out(work)
    servers.received = servers.last = 500
    servers.verified = VerifyResult(True, LSN(600), ())
    carry_out(again(work, verify=True))
    assert servers.log.count("verify") == 2


def test_abandoning_is_refused_if_the_application_has_written_to_the_target():
    work, servers = a_work()
    carry_out(work)
    servers.rows = {"public.t": 4}
    report, error = carry_out(again(work), "abandon")
    assert (error.sqlstate, error.message) == (
        "55000", "the application has written to the target since the switch",
    )  # fmt: skip
    assert error.detail == '"public.t" had 3 rows and has 4'
    assert servers.subscription.enabled is False
    assert report.state == "switched"


def test_with_a_way_back_the_old_database_has_what_was_written_and_is_not_sent_it_again():
    work, servers = a_work(FakeServers(way_back=True, brought_back=True), reverse=True)
    carry_out(work)
    servers.rows = {"public.t": 4}
    servers.log.clear()
    report, error = carry_out(again(work), "abandon")
    assert error is None
    assert servers.log == [
        "drained subscriber_reverse_1", "set_publisher_sequences", "origin none", "drop_reverse subscriber_reverse_1",
        "enable",
    ]  # fmt: skip
    assert "SET (origin = any)" in report.steps[0].text
    assert report.steps[0].details == (
        "sequence a is set forward to 9", "WARNING:  sequence b was not set forward",
    )  # fmt: skip


def test_what_a_dropped_way_back_may_have_brought_is_not_sent_again():
    work, servers = a_work(FakeServers(way_back=True, stands=False), reverse=True)
    carry_out(work)
    servers.log.clear()
    _, error = carry_out(again(work), "abandon")
    assert error is None
    assert servers.log == [
        "verify_at_rest", "set_publisher_sequences", "origin none", "drop_reverse subscriber_reverse_1", "enable",
    ]  # fmt: skip


def test_finishing_drops_the_subscription_and_says_what_stays():
    work, servers = a_work(FakeServers(way_back=True), fence=True, reverse=True)
    carry_out(work)
    report, error = carry_out(again(work), "finish")
    assert error is None
    assert report.state == "finished"
    assert servers.log[-1] == "drop_subscription"
    assert report.notes[0].endswith(
        'run at the publisher: BEGIN READ WRITE; ALTER DATABASE "shop" RESET default_transaction_read_only; COMMIT;'
    )
    assert 'DROP SUBSCRIPTION "subscriber_reverse_1";' in report.notes[1]


def test_a_cutover_that_has_not_switched_over_cannot_be_finished():
    work, servers = a_work()
    with pytest.raises(UsageError, match="has not been switched over") as caught:
        cutovers.finish(work, new_report(servers, "finish"), lambda _: None)
    assert caught.value.sqlstate == "55000"
    assert servers.log == []


def test_the_command_given_again_after_the_switch_does_nothing_and_says_the_ways_on():
    work, servers = a_work()
    carry_out(work)
    servers.log.clear()
    report, error = carry_out(again(work))
    assert (error, report.steps, servers.log) == (None, [], [])
    assert report.notes[0] == "The subscription is switched over already."


@pytest.mark.parametrize("command", ["cutover", "dry run"])
def test_after_the_switch_a_step_that_it_was_made_without_is_refused(command):
    work, servers = a_work(FakeServers(way_back=True))
    carry_out(work)
    servers.log.clear()
    work = again(work, **ALL, accept_missing=("view",))
    report = new_report(servers, command)
    with pytest.raises(UsageError) as caught:
        (cutovers.rehearse if command == "dry run" else cutovers.run_cutover)(work, report, lambda _: None)
    assert caught.value.sqlstate == "55000"
    assert caught.value.message == 'subscription "s" was switched over without --fence, --verify, --reverse'
    assert "subscriber cutover s --abandon" in str(caught.value.hint)
    assert (servers.log, report.state) == ([], "switched")


def test_after_the_switch_the_command_with_the_same_options_is_no_error():
    work, _ = a_work(FakeServers(way_back=True), **ALL)
    carry_out(work)
    assert carry_out(again(work, **ALL))[1] is None
    work, _ = a_work(reverse=True)  # SQLite
    carry_out(work)
    assert carry_out(again(work, reverse=True))[1] is None


def test_a_dry_run_changes_nothing_and_says_what_would_be_refused():
    work, servers = a_work(
        FakeServers(missing=[MissingObject("index", "i")], writers=[["process 5"]]),
        fence=True,
        verify=True,
        reverse=True,
    )
    report = new_report(servers, "dry run")
    assert not cutovers.rehearse(work, report, lambda _: None)
    assert (servers.log, servers.stored, servers.barriers, report.state) == ([], [], 0, "not begun")
    assert {step.name: step.status for step in report.steps} == {
        **dict.fromkeys(NAMES, "would do"), "schema": "would refuse",
    }  # fmt: skip
    texts = {step.name: step.text for step in report.steps}
    assert 'fence database "shop"' in texts["writes"]
    assert "now 1: process 5" in texts["writes"]
    assert texts["reverse"].startswith("there is no way back from SQLite")


def test_a_dry_run_says_that_the_publisher_is_away_and_what_to_do():
    work, servers = a_work()
    servers.failing["publisher_state"] = PublisherUnavailable(
        "the publisher is away", detail="no route", hint="Start it."
    )
    report = new_report(servers, "dry run")
    assert not cutovers.rehearse(work, report, lambda _: None)
    assert (report.steps[0].status, report.steps[0].text) == ("would refuse", "the publisher is away")
    assert report.steps[0].details == ("no route", "→ Start it.")


def test_every_refusal_is_told_before_anything_is_changed():
    work, servers = a_work(FakeServers(runner=None, missing=[MissingObject("index", "i")]), fence=True)
    servers.subscription = replace(servers.subscription, enabled=False)
    report, error = carry_out(work)
    assert error.message == 'subscription "s" is disabled'
    assert [(step.name, step.status, step.text) for step in report.steps] == [
        ("preconditions", "refused", 'subscription "s" is disabled'),
        ("preconditions", "refused", "no `subscriber run` is running for the target"),
        ("schema", "refused", "the target lacks 1 object of the publisher's schema"),
    ]
    assert (servers.log, servers.barriers) == ([], 0)


def test_a_step_that_was_clean_beforehand_is_checked_again_in_its_turn():
    class Dropping(FakeServers):
        def barrier(self):
            self.left_alone = [UnsetSequence("sequence q is gone", None)]
            return super().barrier()

    work, servers = a_work(Dropping())
    report, error = carry_out(work)
    assert error.message == "not every sequence can be set"
    assert [step.name for step in report.steps] == NAMES[:5]
    assert servers.subscription.enabled


def test_the_schema_is_compared_before_the_writes_stop():
    class Dropping(FakeServers):
        def state(self):
            found = super().state()
            self.states = getattr(self, "states", 0) + 1
            if self.states == 3:  # in the first step itself, after everything was checked
                self.missing = [MissingObject("index", "i")]
            return found

    work, servers = a_work(Dropping(), fence=True)
    report, error = carry_out(work)
    assert error.message == "the target lacks 1 object of the publisher's schema"
    assert [step.name for step in report.steps] == ["preconditions", "schema"]
    assert (servers.log, servers.barriers) == ([], 0)


def test_a_table_that_was_created_until_the_writes_stopped_is_refused_unless_it_is_accepted():
    for accepted, names in (((), NAMES[:4]), (("public.new",), [*NAMES[:5], "switch"])):
        work, _ = a_work(FakeServers(outside=["public.new"]), accept_missing=accepted)
        report, error = carry_out(work)
        assert [step.name for step in report.steps] == names
        assert (error is None) is bool(accepted)


def test_a_publisher_that_is_away_at_the_beginning_is_told():
    work, servers = a_work()
    servers.failing["publisher_state"] = PublisherUnavailable("away")
    report, error = carry_out(work)
    assert error.message == "away"
    assert [(step.name, step.status) for step in report.steps] == [("preconditions", "failed")]
