"""Commands from pages: a question first, only from a page of this server, and what came of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.commands.subscription_grammar import AlterEnabled, AlterSkip, RefreshPublication, parse
from subscriber.operate import admin_commands
from subscriber.operate.admin_commands import statement_of
from subscriber.operate.page_templates import PageTemplates
from subscriber.operate.web_app import HEADERS
from tests.dashboards import Page, PageReader, ServedDashboard, served_dashboard
from tests.observations import observation
from tests.subscriptions import NOWHERE, stored_subscription
from tests.waits import wait_until

COMMANDS = "/subscriptions/1/commands"
TOKEN = "0123456789abcdef"
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
"""Control characters are shown as pictures (tests/unit/base/test_html_templates.py)."""
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20)


@pytest.fixture
def dashboard(tmp_path) -> Iterator[ServedDashboard]:
    with served_dashboard(tmp_path, admin=True, conninfo=NOWHERE) as served:
        served.worker["applied"] = LSN(0x100)
        yield served


def origin(dashboard: ServedDashboard, **headers: str) -> dict[str, str]:
    """The headers that a browser sends with the form of a page."""
    here = f"http://127.0.0.1:{dashboard.port}"
    return {
        "origin": here,
        "sec_fetch_site": "same-origin",
        "content_type": "application/x-www-form-urlencoded",
    } | headers


def confirm(dashboard: ServedDashboard, path: str, fields: dict[str, str] | None = None, **headers: str) -> Page:
    """Answer a question with yes; ``fields`` and ``headers`` replace those of the browser."""
    form = dashboard.ask(path).read.fields | (fields or {})
    return dashboard.ask(path.partition("?")[0], "POST", urlencode(form), **origin(dashboard, **headers))


def answered(dashboard: ServedDashboard) -> list[str]:
    """The newest command on the subscription's page, when its answer has come."""
    found: list[str] = []

    def is_there() -> bool:
        rows = [row for row in dashboard.ask("/subscriptions/1").read.rows if row[1].startswith("ALTER SUBSCRIPTION")]
        found[:] = rows[0] if rows else []
        return bool(found) and found[2] != "is carried out" and found[3] not in ("", "not seen yet")

    wait_until(is_there)
    return found


def test_a_question_shows_the_statement_and_changes_nothing(dashboard):
    page = dashboard.ask(f"{COMMANDS}/disable")
    assert page.status == 200
    assert "ALTER SUBSCRIPTION s DISABLE;" in page.read.text
    assert page.read.elements.count("form") == 1
    assert stored_subscription(dashboard.target).enabled


def test_a_confirmed_command_is_carried_out_and_says_when_it_took_effect(dashboard):
    done = confirm(dashboard, f"{COMMANDS}/disable")
    assert (done.status, done.headers["location"]) == (303, "/subscriptions/1#commands")
    row = answered(dashboard)
    assert row[1:3] == ["ALTER SUBSCRIPTION s DISABLE;", "ALTER SUBSCRIPTION"]
    assert row[3].endswith("later")
    assert not stored_subscription(dashboard.target).enabled
    assert "Enable" in dashboard.ask("/subscriptions/1").read.links
    assert confirm(dashboard, f"{COMMANDS}/enable").status == 303
    wait_until(lambda: stored_subscription(dashboard.target).enabled)


def test_a_skip_takes_effect_when_the_transaction_is_passed(dashboard):
    assert confirm(dashboard, f"{COMMANDS}/skip?lsn=0/200").status == 303
    wait_until(lambda: stored_subscription(dashboard.target).skip_lsn == 0x200)
    wait_until(lambda: "not seen yet" in dashboard.ask("/subscriptions/1").read.text)
    dashboard.worker["applied"] = LSN(0x200)
    assert answered(dashboard)[1] == "ALTER SUBSCRIPTION s SKIP (lsn = '0/200');"


def test_a_command_that_fails_shows_the_error_of_subscriber_sql(dashboard):
    confirm(dashboard, f"{COMMANDS}/skip?lsn=0/1")
    row = answered(dashboard)
    assert "ERROR:  skip WAL location (LSN 0/1) must be greater than origin LSN 0/32" in row[2]
    assert row[3] == "none"


def test_a_publisher_that_is_away_fails_the_command_and_not_the_page(dashboard):
    confirm(dashboard, f"{COMMANDS}/refresh")
    row = answered(dashboard)
    assert row[1] == "ALTER SUBSCRIPTION s REFRESH PUBLICATION;"
    assert """ERROR:  subscription "s" could not connect to the publisher""" in row[2]


def test_a_refresh_takes_effect_when_the_run_has_read_the_catalog(dashboard, monkeypatch):
    monkeypatch.setattr(admin_commands, "run_command", lambda *_: "ALTER SUBSCRIPTION")
    confirm(dashboard, f"{COMMANDS}/refresh")
    assert answered(dashboard)[3].endswith("later")


def test_two_commands_at_a_time_are_refused(dashboard, monkeypatch):
    ends = threading.Event()
    monkeypatch.setattr(admin_commands, "run_command", lambda *_: str(ends.wait(60)))
    confirm(dashboard, f"{COMMANDS}/disable")
    refused = confirm(dashboard, f"{COMMANDS}/enable")
    ends.set()
    assert (refused.status, "another command" in refused.read.text) == (400, True)


FOREIGN = {
    "another origin": {"origin": "http://evil.example"},
    "a null origin": {"origin": "null"},
    "another port": {"origin": "http://127.0.0.1:1"},
    "no origin": {"origin": ""},
    "another site": {"sec_fetch_site": "cross-site"},
    "the same site": {"sec_fetch_site": "same-site"},
    "another kind of form": {"content_type": "text/plain"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
def test_a_request_that_no_page_of_this_server_sends_changes_nothing(dashboard, headers):
    assert confirm(dashboard, f"{COMMANDS}/disable", **headers).status == 403
    assert stored_subscription(dashboard.target).enabled


FIELDS = {
    "another secret": ({"secret": "x" * 43}, 403),
    "no secret": ({"secret": ""}, 403),
    "a secret that is not ASCII": ({"secret": "é"}, 403),
    "a form without end": ({"more": "x" * 10_000}, 403),
    "another statement": ({"statement": "ALTER SUBSCRIPTION t DISABLE;"}, 400),
    "a wrong statement": ({"statement": "DROP SUBSCRIPTION s"}, 400),
}


@pytest.mark.parametrize(("fields", "status"), FIELDS.values(), ids=FIELDS)
def test_a_form_that_was_not_made_for_this_question_changes_nothing(dashboard, fields, status):
    assert confirm(dashboard, f"{COMMANDS}/disable", fields).status == status
    assert stored_subscription(dashboard.target).enabled


@pytest.mark.parametrize("path", [f"{COMMANDS}/drop", "/subscriptions/2/commands/disable"])
def test_there_are_no_other_commands(dashboard, path):
    assert dashboard.ask(path).status == 404
    form = dashboard.ask(f"{COMMANDS}/disable").read.fields
    assert dashboard.ask(path, "POST", urlencode(form), **origin(dashboard)).status == 404


def test_an_lsn_that_is_none_is_refused(dashboard):
    for lsn in ("", "x", "0/0"):
        assert dashboard.ask(f"{COMMANDS}/skip?lsn={lsn}").status == 400


def test_without_the_option_there_is_no_command(tmp_path):
    with served_dashboard(tmp_path) as served:
        assert served.ask(f"{COMMANDS}/disable").status == 404
        assert served.ask(f"{COMMANDS}/disable", "POST", "", **origin(served)).status == 404
        assert "Disable" not in served.ask("/subscriptions/1").read.links


def test_a_command_needs_the_token(tmp_path):
    with served_dashboard(tmp_path, admin=True, token=TOKEN) as served:
        form = PageReader(served.ask(f"{COMMANDS}/disable", authorization=f"Bearer {TOKEN}").content).fields
        asked: dict[str, Any] = {"method": "POST", "body": urlencode(form), **origin(served)}
        assert served.ask(f"{COMMANDS}/disable", **asked).status == 401
        assert stored_subscription(served.target).enabled
        assert served.ask(f"{COMMANDS}/disable", authorization=f"Bearer {TOKEN}", **asked).status == 303
        wait_until(lambda: not stored_subscription(served.target).enabled)


def test_every_answer_has_the_headers(dashboard):
    form = urlencode(dashboard.ask(f"{COMMANDS}/disable").read.fields)
    answers = [
        dashboard.ask(f"{COMMANDS}/disable"),
        dashboard.ask(f"{COMMANDS}/drop"),
        dashboard.ask(f"{COMMANDS}/skip"),
        dashboard.ask("/subscriptions/1/journal"),
        dashboard.ask("/subscriptions/1/cutover"),
        dashboard.ask(f"{COMMANDS}/disable", "POST", form),
        dashboard.ask(f"{COMMANDS}/disable", "POST", form, **origin(dashboard)),
    ]
    assert [one.status for one in answers] == [200, 404, 400, 503, 200, 403, 303]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert "form-action 'self'" in HEADERS["Content-Security-Policy"]


@settings(max_examples=40)
@given(TEXTS, TEXTS)
def test_whatever_a_question_or_an_error_contains_stays_text(name, error):
    templates = PageTemplates()

    def question(one: str) -> PageReader:
        shown = {"one": observation(one), "statement": statement_of(one, "disable"), "lsn": None, "secret": "",
                 "consequence": "", "address": ""}  # fmt: skip
        return PageReader(templates.content("question.html", shown))

    def failure(text: str, title: str) -> PageReader:
        return PageReader(bytes(templates.failure(SubscriberError(text), title, "/").body).decode())

    assert question(name).elements == question("s").elements
    assert question(name).fields["statement"] == statement_of(name, "disable")
    assert failure(error, name).elements == failure("no", "s").elements
    assert error in failure(error, name).text


@settings(max_examples=40)
@given(NAMES)
def test_whatever_a_subscription_is_called_the_statement_is_about_it(name):
    """Invariant names_are_data."""
    parsed = [parse(statement_of(name, action, LSN(0x200))) for action in ("enable", "disable", "refresh", "skip")]
    assert [type(one) for one in parsed] == [AlterEnabled, AlterEnabled, RefreshPublication, AlterSkip]
    assert {one.name for one in parsed} == {name}  # type: ignore[union-attr]
