"""The addresses of the HTTP server.

========== =====================================================================
/metrics   for Prometheus
/livez     200 while the loop of supervisor or receiver goes round; asks no server
/readyz    200 when the run lock is held and the workers are started, or the receiver
/health    200 or 503 with the reasons, by the limits ``?lag=60s&errors=0``
/          the dashboard of a run
========== =====================================================================

Everything is read-only: another method than GET or HEAD is refused, unless ``--http-admin`` adds
commands (:mod:`subscriber.operate.admin_commands`). Without a token only requests
for a loopback name are answered, so a page of another origin cannot read anything by a name that
leads here (DNS rebinding). There is no CORS. ``/livez`` and ``/readyz`` need no token: they say one
word, and the probes of Kubernetes cannot keep a secret.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from subscriber.base.errors import UsageError
from subscriber.operate.exposition import CONTENT_TYPE, RunCollector, exposition, registry
from subscriber.operate.health import Health, HealthFacts, HealthLimits, Verdict, judge, read_limits
from subscriber.operate.http_server import is_loopback
from subscriber.operate.observation import Observation, RunObservation
from subscriber.publisher.client import Slot

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ALIVE_SECONDS: Final = 60.0
"""How long a loop may take: it may wait for the target's catalog, or for a slow disk."""
_OPEN: Final = frozenset({"/livez", "/readyz"})
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Served:
    """What is served: the run as it is now, and what its readiness lacks (None if nothing)."""

    observe: Callable[[], RunObservation]
    unready: Callable[[], str | None]
    most_tables: int = 200
    token: str | None = None
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the addresses for machines answer.

    Attributes:
        looped_at: when the loop last went round (monotonic seconds).
        unready: what is missing until the service is ready; None if nothing is.
        judge: the health, by limits.
    """

    metrics: CollectorRegistry
    looped_at: Callable[[], float]
    unready: Callable[[], str | None]
    judge: Callable[[HealthLimits], Health]
    token: str | None = None


def web_app(served: Served, more: Sequence[Route] = ()) -> ASGIApp:
    """The application of a run; ``more`` are the routes of the dashboard."""
    answers = Answers(
        registry(RunCollector(served.observe, served.most_tables)),
        lambda: served.observe().looped_at or served.began,
        served.unready,
        lambda limits: judge_run(served.observe(), limits),
        served.token,
    )
    return application(answers, more)


def application(answers: Answers, more: Sequence[Route] = ()) -> ASGIApp:
    def scrape(_: Request) -> Response:
        return Response(exposition(answers.metrics), media_type=CONTENT_TYPE)

    def livez(_: Request) -> Response:
        silent = time.monotonic() - answers.looped_at()
        if silent <= ALIVE_SECONDS:
            return PlainTextResponse("ok\n")
        return PlainTextResponse(f"the loop has not gone round for {silent:.0f} s\n", 503)

    def readyz(_: Request) -> Response:
        unready = answers.unready()
        return PlainTextResponse("ok\n") if unready is None else PlainTextResponse("not ready\n", 503)

    def health(request: Request) -> Response:
        try:
            limits = read_limits(dict(request.query_params))
        except UsageError as error:
            return PlainTextResponse(f"{error.report()}\n", 400)
        found = answers.judge(limits)
        healthy = found.verdict in (Verdict.OK, Verdict.WARNING)
        return PlainTextResponse(f"{found.verdict.name}\n{''.join(f'{one}{chr(10)}' for one in found.reasons)}",
                                 200 if healthy else 503)  # fmt: skip

    app = Starlette(
        routes=[
            Route("/metrics", scrape),
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/health", health),
            *more,
        ]
    )
    return Guard(app, answers.token)


def standby_app(token: str | None) -> ASGIApp:
    """The application of a run that waits for the run lock. It has the metrics of its process, so
    Prometheus finds it up.
    """
    metrics = registry(RunCollector(RunObservation, 0))

    def answer(request: Request) -> Response:
        alive = request.url.path == "/livez"
        return PlainTextResponse("ok\n" if alive else "not ready: waiting for the run lock\n", 200 if alive else 503)

    def scrape(_: Request) -> Response:
        return Response(exposition(metrics), media_type=CONTENT_TYPE)

    paths = ("/livez", "/readyz", "/health")
    routes = [Route("/metrics", scrape), *(Route(path, answer) for path in paths)]
    return Guard(Starlette(routes=routes), token)


def judge_run(run: RunObservation, limits: HealthLimits) -> Health:
    return judge(map(facts_of, run.subscriptions), limits)


def facts_of(one: Observation) -> HealthFacts:
    errors = 0
    if one.worker is not None:
        errors = one.worker.failing.in_a_row + len(one.worker.failed_tables)
    return HealthFacts(one.name, one.state, one.lag_seconds, errors, problem_of(one.slot), one.publisher.error)


def problem_of(slot: Slot | None) -> str | None:
    """``lost`` or ``unreserved``, if that is what the slot is."""
    if slot is None:
        return None
    if slot.lost is not None:
        return "lost"
    return "unreserved" if slot.wal_status == "unreserved" else None


class Guard:
    """Asks for the token, or for a loopback name; adds :data:`HEADERS` to every answer."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        if scope["type"] != "http":
            return
        refusal = self._refusal(scope["path"], Headers(scope=scope))
        await (self._app if refusal is None else refusal)(scope, receive, send_with_headers)

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        if path in _OPEN:
            return None
        if self._token is not None:
            if any(hmac.compare_digest(given.encode(), self._token.encode()) for given in _given(headers)):
                return None
            challenge = {"WWW-Authenticate": 'Basic realm="subscriber", charset="UTF-8"'}
            return PlainTextResponse("a token is needed\n", 401, challenge)
        if is_loopback(_host_name(headers.get("host", ""))):
            return None
        return PlainTextResponse("this server is reached by a loopback name only\n", 421)


def _given(headers: Headers) -> list[str]:
    """The token of ``Bearer``, or the password of ``Basic``, which browsers ask for."""
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return [value.strip()]
    if kind.lower() == "basic":
        try:
            return [base64.b64decode(value, validate=True).decode().partition(":")[2]]
        except (binascii.Error, UnicodeDecodeError):
            return []
    return []


def _host_name(host: str) -> str:
    """A Host header without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
