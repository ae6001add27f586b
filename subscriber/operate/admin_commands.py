"""Commands that a page gives with ``--http-admin``: the same code as ``subscriber sql`` runs them.

::

    link ──▶ question (GET) ──▶ POST: same origin, secret of the run, the statement that was shown
                                  └──▶ thread: parse, run_command ──▶ wait until the run shows the effect
    the subscription's page ◀── what was given, its answer, when it took effect

A browser sends the token of HTTP Basic with the request of any page. So a POST is carried out only
if it comes from a page of this server (``Origin``), and has the secret that only its pages have.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, get_args
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from subscriber.base.errors import SubscriberError, UsageError, fault
from subscriber.base.lsn import INVALID_LSN, LSN, format_lsn, parse_lsn
from subscriber.commands.dispatch import run_command
from subscriber.commands.subscription_grammar import AlterSubscription, parse
from subscriber.operate.observation import Observation
from subscriber.operate.page_sources import PageSources, find_observation
from subscriber.operate.page_templates import PageTemplates
from subscriber.operate.subscription_details import skip_statement
from subscriber.postgres.sql.quoting import quote_identifier

if TYPE_CHECKING:
    from subscriber.operate.web_app import Served

logger = logging.getLogger(__name__)

CommandAction = Literal["enable", "disable", "refresh", "skip"]
_KEPT: Final = 20
_EFFECT_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
_FORM_BYTES: Final = 8_192
_QUESTIONS: Final[Mapping[CommandAction, str]] = {
    "enable": "Its worker starts. If it retries already, it tries again at once.",
    "disable": "Its worker ends, and nothing is received or applied. The publisher keeps its WAL for the slot meanwhile.",
    "refresh": "Tables that the publications have gained are copied. Those that they have lost are replicated no longer.",
    "skip": "All changes of this transaction are left out, and the target may then differ from the publisher.",
}


@dataclass(frozen=True, slots=True)
class GivenCommand:
    """A command as it was given, with what is known of it by now. Times are seconds since 1970.

    Attributes:
        answer: its notices and its tag, or its error, as psql prints them; None while it runs.
        effective_at: when the run was seen to follow it; None if that was not seen.
    """

    subid: int
    action: CommandAction
    statement: str
    given_at: float
    lsn: LSN = INVALID_LSN
    answer: str | None = None
    has_failed: bool = False
    ended_at: float | None = None
    effective_at: float | None = None


@dataclass(slots=True)
class AdminCommands:
    """The last commands that were given, newest first, and the one that is carried out now."""

    served: Served
    sources: PageSources
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    effect_seconds: float = _EFFECT_SECONDS
    _given: Sequence[GivenCommand] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: threading.Lock = field(default_factory=threading.Lock)

    def of(self, subid: int) -> list[GivenCommand]:
        return [one for one in self._given if one.subid == subid]

    def give(self, one: Observation, action: CommandAction, lsn: LSN) -> None:
        """Begin a command in a thread. 55P03: another one is not finished."""
        if not self._busy.acquire(blocking=False):
            raise UsageError(
                "another command that was given on a page is not finished",
                sqlstate="55P03",
                hint="Its subscription's page shows it. Wait for its answer.",
            )
        given = GivenCommand(one.subscription.subid, action, statement_of(one.name, action, lsn), time.time(), lsn)
        with self._lock:
            self._given = (given, *self._given[: _KEPT - 1])
        threading.Thread(target=self._carry_out, args=(given,), name="command of a page", daemon=True).start()

    def _carry_out(self, given: GivenCommand) -> None:
        notices: list[str] = []
        failure: SubscriberError | None = None
        answer = ""
        try:
            answer = _run(self.sources, given.statement, notices)
        except SubscriberError as error:
            failure = error
        except Exception as error:
            failure = fault("the command has failed", error)
        finally:
            self._busy.release()
        if failure is None:
            logger.info("a page has given the command: %s", given.statement)
        else:
            logger.warning("a page has given the command: %s: %s", given.statement, failure.message)
            answer = failure.report()
        told, has_failed = "\n".join([*notices, answer]), failure is not None
        ended = replace(given, answer=told, has_failed=has_failed, ended_at=time.time())
        polls = self.served.observe().polls
        self._store(given, ended)
        if has_failed:
            return
        deadline = time.monotonic() + self.effect_seconds
        while time.monotonic() < deadline:
            if self._has_effect(ended, polls):
                self._store(ended, replace(ended, effective_at=time.time()))
                return
            time.sleep(_LOOK_SECONDS)

    def _store(self, before: GivenCommand, now: GivenCommand) -> None:
        """Show what is known of a command in the place of what was known before."""
        with self._lock:
            self._given = tuple(now if one is before else one for one in self._given)

    def _has_effect(self, given: GivenCommand, polls: int) -> bool:
        """Whether the run follows the command; ``polls`` is how often it had read the catalog."""
        run = self.served.observe()
        one = next((one for one in run.subscriptions if one.subscription.subid == given.subid), None)
        if one is None:
            return False
        match given.action:
            case "enable":
                return one.subscription.enabled and one.worker is not None
            case "disable":
                return not one.subscription.enabled and one.worker is None
            case "skip":
                return one.worker is not None and one.worker.applied >= given.lsn
            case "refresh":
                return run.polls > polls


def statement_of(name: str, action: CommandAction, lsn: LSN = INVALID_LSN) -> str:
    if action == "skip":
        return skip_statement(name, lsn)
    words = {"enable": "ENABLE", "disable": "DISABLE", "refresh": "REFRESH PUBLICATION"}[action]
    return f"ALTER SUBSCRIPTION {quote_identifier(name)} {words};"


def _run(sources: PageSources, statement: str, notices: list[str]) -> str:
    parsed = parse(statement)
    assert isinstance(parsed, AlterSubscription)
    return run_command(sources.target, parsed, sources.settings, notices.append)


# Addresses ----------------------------------------------------------------------------------------


def admin_routes(commands: AdminCommands) -> list[Route]:
    """``/subscriptions/1/commands/disable``: GET asks, POST gives the command."""
    templates = PageTemplates()

    def asked(request: Request, parameters: Mapping[str, str]) -> tuple[Observation, CommandAction, LSN] | None:
        """The subscription, the action and its LSN; None if there is no such page."""
        one = find_observation(commands.served, request.path_params["subid"])
        action: CommandAction | None = next(
            (one for one in get_args(CommandAction) if one == request.path_params["action"]), None
        )
        if one is None or action is None:
            return None
        return one, action, _lsn_to_skip(parameters) if action == "skip" else INVALID_LSN

    def refused(request: Request, error: SubscriberError) -> Response:
        return templates.failure(error, "Command", f"/subscriptions/{request.path_params['subid']}")

    def question(request: Request) -> Response:
        try:
            found = asked(request, request.query_params)
        except UsageError as error:
            return refused(request, error)
        if found is None:
            return PlainTextResponse("not found\n", 404)
        one, action, lsn = found
        shown = {
            "one": one,
            "statement": statement_of(one.name, action, lsn),
            "lsn": format_lsn(lsn) if action == "skip" else None,
            "consequence": _QUESTIONS[action],
            "secret": commands.secret,
            "address": request.url.path,
        }
        return templates.page(templates.content("question.html", shown), f"Command for {one.name}")

    async def command(request: Request) -> Response:
        if not is_same_origin(request.headers):
            return PlainTextResponse("a command is taken from a page of this server only\n", 403)
        form = await _form(request)
        if form is None or not hmac.compare_digest(form.get("secret", "").encode(), commands.secret.encode()):
            return PlainTextResponse("the form is not one of this run: load the page again\n", 403)
        try:
            found = asked(request, form)
            if found is None:
                return PlainTextResponse("not found\n", 404)
            one, action, lsn = found
            if form.get("statement") != statement_of(one.name, action, lsn):
                raise UsageError(
                    "the subscription was changed after the question was asked",
                    sqlstate="55000",
                    hint="Nothing was done. Look at the subscription again.",
                )
            commands.give(one, action, lsn)
        except UsageError as error:
            return refused(request, error)
        return RedirectResponse(f"/subscriptions/{one.subscription.subid}#commands", 303)

    path = "/subscriptions/{subid:subid}/commands/{action}"
    return [Route(path, question, methods=["GET"]), Route(path, command, methods=["POST"])]


def is_same_origin(headers: Headers) -> bool:
    """Whether a browser says that a page of this server sends the request. Behind a proxy, the
    proxy must pass the ``Host`` of the browser on.
    """
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin, host = urlsplit(headers.get("origin", "")), headers.get("host", "")
    return origin.scheme in ("http", "https") and bool(host) and origin.netloc.lower() == host.lower()


async def _form(request: Request) -> dict[str, str] | None:
    """The fields of a small form; None if the request has no such form."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        return None
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _FORM_BYTES:
            return None
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=10)
    except ValueError:
        return None
    return {name: values[0] for name, values in fields.items()}


def _lsn_to_skip(parameters: Mapping[str, str]) -> LSN:
    lsn = parse_lsn(parameters.get("lsn", ""))
    if lsn == INVALID_LSN:
        raise UsageError("no transaction ends at 0/0", hint="The conflicts of the subscription have their LSNs.")
    return lsn
