"""A dashboard of one subscription over a socket, with a target's catalog and a journal on disk."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from subscriber.base.settings import Settings
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.operate.dashboard import Pages, dashboard_routes
from subscriber.operate.http_server import serving
from subscriber.operate.lag_history import History
from subscriber.operate.observation import Observation, RunObservation
from subscriber.operate.page_sources import PageSources
from subscriber.operate.subscription_details import SubscriptionDetails
from subscriber.operate.web_app import Served, web_app
from subscriber.targets import Target, open_target
from tests.observations import observation, run_of
from tests.subscriptions import create_subscription, stored_subscription


class PageReader(HTMLParser):
    """The elements, the cells of tables, the addresses of links by name, the fields of forms with
    their values, and the text of a page.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.rows: list[list[str]] = []
        self.links: dict[str, str] = {}
        self.fields: dict[str, str] = {}
        self._texts: list[str] = []
        self._cells: list[str] | None = None
        self._link: dict[str, str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append(tag)
        if tag == "input":
            self.fields[dict(attrs)["name"]] = dict(attrs).get("value", "")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cells = self.rows[-1]
        if tag == "a":
            self._link = dict(attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cells = None
        if tag == "a":
            self._link = None

    def handle_data(self, data: str) -> None:
        self._texts.append(data)
        if self._cells is not None:
            self._cells[-1] += data
        if self._link is not None:
            self.links[self._link.get("aria-label", data)] = self._link["href"]

    @property
    def text(self) -> str:
        return "".join(self._texts)


@dataclass
class Page:
    status: int
    headers: http.client.HTTPMessage
    content: str

    @property
    def read(self) -> PageReader:
        return PageReader(self.content)


@dataclass
class ServedDashboard:
    """``worker`` are fields of the worker's snapshot; the subscription is read from the catalog at
    each look, which ``polls`` counts.
    """

    target: Target
    folder: Path
    port: int = 0
    name: str = "s"
    worker: dict[str, Any] = field(default_factory=dict)
    polls: Callable[[], int] = count().__next__

    @property
    def journal(self) -> Path:
        return self.folder / "journals" / "1_s"

    def observed(self) -> Observation:
        subscription = stored_subscription(self.target, self.name)
        return observation(subscription=subscription, worker=self.worker if subscription.enabled else None)

    def ask(self, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Page:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        given = {name.replace("_", "-").title(): value for name, value in headers.items()}
        with contextlib.closing(connection):
            connection.request(method, path, body, given)
            answer = connection.getresponse()
            return Page(answer.status, answer.headers, answer.read().decode())

    def follow(self, page: Page, link: str) -> Page:
        address = urlsplit(page.read.links[link])
        return self.ask(f"{address.path}?{address.query}" if address.query else address.path)


@contextlib.contextmanager
def served_dashboard(
    folder: Path, *, show_values: bool = False, admin: bool = False, token: str | None = None, **options: Any
) -> Iterator[ServedDashboard]:
    """A dashboard whose subscription "s" has these options, and no journal yet."""
    with open_target(f"sqlite:///{folder / 'target.db'}") as target:
        ensure_catalog(target.engine)
        create_subscription(target, **options)
        served = ServedDashboard(target, folder)
        settings = Settings(journal=str(folder / "journals"))
        sources = PageSources(target, settings, show_values=show_values, admin=admin)
        run = Served(lambda: run_of(served.observed(), polls=served.polls()), lambda: None, token=token)
        app = web_app(run, dashboard_routes(run, History(), sources))
        with serving(app, "127.0.0.1", 0) as served.port:
            yield served


def pages_of(observe: Callable[[], RunObservation]) -> Pages:
    """The pages of a run without its target, of which nothing more is known."""
    served: Any = SimpleNamespace(observe=observe)
    details: Any = SimpleNamespace(of=lambda *_, **__: SubscriptionDetails(), forget=lambda _: None)
    return Pages(served, History(), details)
