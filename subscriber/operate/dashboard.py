"""The dashboard: what its pages show, as data for the templates, and their addresses.

::

    observation + history ──▶ Overview, SubscriptionPage ──▶ templates ──▶ page      /, /subscriptions/1
                                                                      └──▶ fragment  /events, once a second if it has changed
    target, journal ──▶ questions ──▶ journal_pages ───────▶ templates ──▶ page      /subscriptions/1/journal

A page works without JavaScript; the script only puts the newest fragment in the place of the last
one. A fragment is made once a second for each address, however many pages are open; it waits for
no server. A page that asks servers has no events.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.filesize import decimal
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from subscriber.base import clock
from subscriber.base.digits import parse_int
from subscriber.base.errors import SubscriberError
from subscriber.base.html_templates import package_file, style_sheet
from subscriber.base.lsn import LSN, format_lsn
from subscriber.base.settings import redact_conninfo
from subscriber.catalog.subscription_options import OPTIONS, option_values
from subscriber.operate.admin_commands import AdminCommands, GivenCommand, admin_routes
from subscriber.operate.cutover_page import cutover_shown
from subscriber.operate.journal_pages import explanation_page, messages_page, transactions_page
from subscriber.operate.lag_history import History, HistoryPoint, SubscriptionHistory
from subscriber.operate.observation import Observation, RunObservation
from subscriber.operate.page_sources import PageSources, SubscriptionPages, find_observation
from subscriber.operate.page_templates import PageTemplates
from subscriber.operate.subscription_details import (
    NOT_ASKED,
    DetailsOfSubscriptions,
    SubscriptionDetails,
    details_shown,
    skip_statement,
)
from subscriber.worker.worker_snapshot import AppliedBatch

if TYPE_CHECKING:
    from subscriber.operate.web_app import Served

_EVENT_SECONDS: Final = 1.0
_HOUR: Final = 3600.0
_WIDTH: Final = 120
_HEIGHT: Final = 24
_SHOWN_BATCHES: Final = 20
_WORST: Final = ("stopped", "retrying", "starting", "copying", "paused", "streaming", "disabled")
_STAGES: Final = ("read", "decode", "filter", "apply", "commit")
_STATES: Final = {"i": "waits", "d": "copying", "f": "copied", "s": "synced", "r": "ready"}


# Overview -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OverviewRow:
    subid: int
    name: str
    state: str
    lag: str
    sparkline: str
    rate: float
    retained: int | None
    error: str | None
    since: str | None
    is_bad: bool


def overview(run: RunObservation, history: History) -> dict[str, Any]:
    """The subscriptions, worst first, and totals."""
    listed = sorted(run.subscriptions, key=_badness)
    rows = [_overview_row(one, history.of(one.subscription.subid)) for one in listed]
    return {
        "rows": rows,
        "failed_reads": run.failed_polls,
        "bad": sum(row.is_bad for row in rows),
        "rate": sum(row.rate for row in rows),
        "retained": sum(row.retained or 0 for row in rows),
        "tables": sum(len(one.worker.relations) for one in run.subscriptions if one.worker is not None),
    }


def _badness(one: Observation) -> tuple[int, float, str]:
    lag = one.lag_seconds
    worst = 0 if _slot_problem(one) else _WORST.index(one.state)
    return worst, -(lag if lag is not None else _HOUR), one.name


def _overview_row(one: Observation, history: SubscriptionHistory) -> OverviewRow:
    points = list(history.points)
    error = one.error or _slot_problem(one)
    return OverviewRow(
        one.subscription.subid,
        one.name,
        one.state,
        seconds(one.lag_seconds),
        sparkline(points, one.now),
        points[-1].rate if points else 0.0,
        one.retained_bytes,
        None if error is None else error.partition("\n")[0],
        moment(one.failing_since),
        one.state in ("stopped", "retrying") or error is not None,
    )


def sparkline(points: Sequence[HistoryPoint], now: float) -> str:
    """The points of an SVG path: the last hour from left to right; gaps where nothing is known. Its
    height is the greatest lag, or a second if that is more.
    """
    highest = max([1.0, *(point.lag for point in points if point.lag is not None)])
    drawn, pen = [], "M"
    for point in points:
        if point.lag is None:
            pen = "M"
            continue
        x = _WIDTH * (1 - min(1.0, (now - point.at) / _HOUR))
        drawn.append(f"{pen}{x:.1f} {_HEIGHT - 2 - (_HEIGHT - 4) * point.lag / highest:.1f}")
        pen = "L"
    return " ".join(drawn)


def _slot_problem(one: Observation) -> str | None:
    slot = one.slot
    if slot is not None and slot.lost is not None:
        return f"the slot is lost: {slot.lost}"
    if slot is not None and slot.wal_status == "unreserved":
        return "the slot is about to be lost"
    return None


# A subscription -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A place on the way of the data; ``problem`` is what holds it back there."""

    title: str
    value: str
    detail: str
    problem: str | None = None


def subscription_page(
    one: Observation, history: SubscriptionHistory, details: SubscriptionDetails = NOT_ASKED
) -> dict[str, Any]:
    subscription, worker = one.subscription, one.worker
    error = None if worker is None else worker.failure
    skip = skip_lsn = None
    if worker is not None and worker.applying.error is not None and worker.applying.error.lsn:
        skip = skip_statement(subscription.name, LSN(worker.applying.error.lsn))
        skip_lsn = format_lsn(worker.applying.error.lsn)
    return {
        "one": one,
        "lag": seconds(one.lag_seconds),
        "places": list(_places(one)),
        "tables": list(_tables(one, history)),
        "error": None if error is None else _without_values(error, one).report(),
        "attempts": 0 if worker is None else worker.failing.in_a_row,
        "since": moment(one.failing_since),
        "skip": skip,
        "skip_lsn": skip_lsn,
        "conflicts": _conflicts(one),
        "batches": [_batch(batch) for batch in reversed(list(worker.batches if worker else ())[-_SHOWN_BATCHES:])],
        "stages": _STAGES,
        "options": _options(one),
        "connection": redact_conninfo(subscription.connection or ""),
        "publications": subscription.publications,
        "server": None if worker is None else worker.server,
        **details_shown(details, one, () if skip is None else (skip,)),
    }


def _without_values(error: SubscriberError, one: Observation) -> SubscriberError:
    """An error as it may be shown: with log_conflict_values, its DETAIL has values of rows."""
    return error.replace(detail=None) if one.subscription.options.log_conflict_values else error


def _places(one: Observation) -> Iterator[Place]:
    worker, moments, journal = one.worker, one.publisher.moments, one.journal
    away = one.publisher.error
    answered = f"answered {seconds(one.now + moments[-1].offset - moments[-1].at)} ago" if moments else "not asked yet"
    position = format_lsn(moments[-1].lsn) if moments else "?"
    yield Place("Publisher", position, answered, away or _slot_problem(one))
    if worker is None:
        return
    heard, receiving = worker.received_counts.heard_at, worker.receiving.error
    yield Place(
        "Received",
        format_lsn(one.reach.received),
        "nothing heard yet" if heard is None else f"heard {seconds(one.now - heard)} ago",
        None if receiving is None else receiving.message,
    )
    size = "?" if journal is None else f"{journal.entries:,} entries"
    yield Place("Journal", "?" if journal is None else decimal(journal.bytes), size)
    applying = worker.faults.error or worker.applying.error
    applied = (
        "nothing applied yet" if worker.applied_at is None else f"applied {seconds(one.now - worker.applied_at)} ago"
    )
    held = "held by a command" if one.state == "paused" else None
    yield Place("Applied", format_lsn(worker.applied), applied, held if applying is None else applying.message)


@dataclass(frozen=True, slots=True)
class TableRow:
    name: str
    state: str
    rate: float
    rows: int | None
    estimated: int
    error: str | None


def _tables(one: Observation, history: SubscriptionHistory) -> Iterator[TableRow]:
    """The tables, those that are not ready first."""
    if one.worker is None:
        return
    copies = {(copy.schema, copy.name): copy for copy in one.worker.copies}
    failed = one.worker.failed_tables
    for table in sorted(one.worker.relations, key=lambda table: (table.state.value == "r", table.qualified_name)):
        key = (table.schema, table.name)
        copy, failure = copies.get(key), failed.get(key)
        error = None if failure is None or failure.error is None else failure.error.message
        yield TableRow(
            table.qualified_name,
            _STATES[table.state.value],
            history.rates.get(key, 0.0),
            None if copy is None else copy.rows,
            0 if copy is None else max(copy.estimated_rows, copy.rows),
            error,
        )


def _conflicts(one: Observation) -> list[tuple[str, int]]:
    counts = {} if one.worker is None else dict(one.worker.counts)
    return sorted((labels[1], int(number)) for labels, number in counts.items() if labels[0] == "conflicts")


def _batch(batch: AppliedBatch) -> dict[str, Any]:
    return {
        "at": moment(batch.at),
        "end": format_lsn(batch.end),
        "lag": seconds(batch.lag),
        "stages": [batch.seconds.get(stage, 0.0) * 1000 for stage in _STAGES],
        **{name: value for name, value in asdict(batch).items() if name in ("transactions", "changes", "exact")},
    }


def _options(one: Observation) -> list[tuple[str, str]]:
    """The stored options, as a command gives them."""
    given = sorted(option_values(one.subscription.options).items())
    words = {True: "true", False: "false", None: "NONE"}
    return [
        (name, words[value] if value is None or isinstance(value, bool) else str(value))
        for name, value in given
        if OPTIONS[name].column is not None
    ]


def moment(at: float | None) -> str | None:
    """A time for people, in UTC.

    >>> moment(0.25)
    '1970-01-01 00:00:00 UTC'
    """
    return None if at is None else f"{clock.as_text(at)[:19].replace('T', ' ')} UTC"


def seconds(number: float | None) -> str:
    """A time for people.

    >>> seconds(0.25), seconds(90), seconds(7300), seconds(None)
    ('0.2 s', '1 min 30 s', '2 h 1 min', '?')
    """
    if number is None:
        return "?"
    if number < 60:
        return f"{max(0.0, number):.1f} s"
    whole = int(number)
    return f"{whole // 60} min {whole % 60} s" if whole < _HOUR else f"{whole // 3600} h {whole % 3600 // 60} min"


def commands_shown(admin: AdminCommands | None, one: Observation) -> dict[str, Any]:
    """The commands that the page offers, if it may give any, and those that were given."""
    given = [] if admin is None else admin.of(one.subscription.subid)
    return {
        "offers_commands": admin is not None,
        "given": [
            {"command": command, "given_at": moment(command.given_at), "effect": _effect(command)} for command in given
        ],
    }


def _effect(command: GivenCommand) -> str:
    if command.ended_at is None:
        return ""
    if command.has_failed:
        return "none"
    if command.effective_at is None:
        return "not seen yet"
    return f"{moment(command.effective_at)}, {seconds(command.effective_at - command.given_at)} later"


# Addresses ----------------------------------------------------------------------------------------

_STATIC: Final = {"dashboard.css": "text/css", "dashboard.js": "text/javascript", "icon.svg": "image/svg+xml"}


View = Literal["subscription", "cutover"]
"""What a live page shows of a subscription."""


class Pages:
    """Renders pages and fragments; a fragment is kept for as long as an event is away."""

    def __init__(
        self, served: Served, history: History, details: DetailsOfSubscriptions, admin: AdminCommands | None = None
    ) -> None:
        self._served = served
        self._history = history
        self._details = details
        self._admin = admin
        self._templates = PageTemplates()
        self._kept: dict[tuple[int | None, View], tuple[float, str]] = {}

    def fragment(self, subid: int | None, view: View = "subscription") -> str | None:
        """The content of the overview or of a view of a subscription; None if there is none."""
        kept = self._kept.get((subid, view))
        now = time.monotonic()
        if kept is None or now - kept[0] >= _EVENT_SECONDS * 0.9:
            content = self._render(subid, view)
            if content is None:
                return None  # nothing is kept: anybody may ask for any number
            kept = self._kept[subid, view] = now, content
        return kept[1]

    def page(self, subid: int | None, view: View = "subscription") -> Response | None:
        content = self._render(subid, view, may_wait=True)
        if content is None:
            return None
        address = "/events" if subid is None else f"/events?subscription={subid}&view={view}"
        one = None if subid is None else find_observation(self._served, subid)
        title = "Subscriptions" if one is None else one.name
        return self._templates.page(content, title if view == "subscription" else f"Cutover of {title}", events=address)

    def _render(self, subid: int | None, view: View, *, may_wait: bool = False) -> str | None:
        if subid is None:
            return self._templates.content("overview.html", overview(self._served.observe(), self._history))
        one = find_observation(self._served, subid)
        if one is None:
            self._kept.pop((subid, view), None)
            self._details.forget(subid)
            return None
        if view == "cutover":
            answer = self._details.cutover_of(one.subscription, may_wait=may_wait)
            return self._templates.content("cutover.html", cutover_shown(one, answer.value, answer.error))
        details = self._details.of(one.subscription, may_wait=may_wait)
        shown = subscription_page(one, self._history.of(subid), details)
        return self._templates.content("subscription.html", shown | commands_shown(self._admin, one))

    async def events(self, subid: int | None, view: View) -> AsyncIterator[bytes]:
        """The fragment as an event, at once and whenever it has changed."""
        sent: str | None = None
        while True:
            current = self.fragment(subid, view)
            if current is None:
                return
            if current != sent:
                sent = current
                yield b"data: " + json.dumps(current).encode() + b"\n\n"
            else:
                yield b":\n\n"  # notices a browser that has gone
            await asyncio.sleep(_EVENT_SECONDS)


def dashboard_routes(served: Served, history: History, sources: PageSources) -> list[Route]:
    admin = AdminCommands(served, sources) if sources.admin else None
    pages = Pages(served, history, DetailsOfSubscriptions(sources), admin)
    below = SubscriptionPages(served, sources)

    def show(subid: int | None, view: View = "subscription") -> Response:
        return pages.page(subid, view) or PlainTextResponse("not found\n", 404)

    def home(_: Request) -> Response:
        return show(None)

    def subscription(request: Request) -> Response:
        return show(request.path_params["subid"])

    def cutover(request: Request) -> Response:
        return show(request.path_params["subid"], "cutover")

    def static(request: Request) -> Response:
        name = request.url.path.lstrip("/")
        read = style_sheet if name.endswith(".css") else package_file
        return Response(read("subscriber.operate", f"static/{name}"), media_type=_STATIC[name])

    async def events(request: Request) -> Response:
        asked = request.query_params.get("subscription", "")
        subid = parse_int(asked) if asked.isascii() and asked.isdigit() else None
        view: View = "cutover" if request.query_params.get("view") == "cutover" else "subscription"
        return StreamingResponse(pages.events(subid, view), media_type="text/event-stream")

    return [
        Route("/", home),
        Route("/subscriptions/{subid:subid}", subscription),
        Route("/subscriptions/{subid:subid}/cutover", cutover),
        below.route("journal", "journal.html", "Journal", transactions_page),
        below.route("journal/transaction", "transaction.html", "Transaction", messages_page),
        below.route("journal/explain", "explanation.html", "Explanation", explanation_page),
        Route("/events", events),
        *(Route(f"/{name}", static) for name in _STATIC),
        *(() if admin is None else admin_routes(admin)),
    ]
