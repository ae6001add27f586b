"""What pages may ask, and the pages of a subscription that ask servers when they are opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from typing_extensions import override

from subscriber.base.digits import parse_int
from subscriber.base.errors import SubscriberError
from subscriber.base.settings import Settings
from subscriber.operate.observation import Observation
from subscriber.operate.page_templates import PageTemplates
from subscriber.operate.questions import Questions
from subscriber.targets import Target

if TYPE_CHECKING:
    from subscriber.operate.web_app import Served


@dataclass(frozen=True, slots=True)
class PageSources:
    """``show_values``: pages may show the values of rows; ``admin``: they may give commands."""

    target: Target
    settings: Settings
    show_values: bool = False
    admin: bool = False
    questions: Questions = field(default_factory=Questions)


class _SubidConvertor(IntegerConvertor):
    """An OID in an address: Starlette's conversion fails for thousands of digits."""

    @override
    def convert(self, value: str) -> int:
        return parse_int(value)


register_url_convertor("subid", _SubidConvertor())

Build = Callable[[PageSources, Observation, Mapping[str, str]], Mapping[str, Any]]
"""What a page shows of a subscription, by the parameters of the request; it may ask servers."""


class SubscriptionPages:
    """Routes of the pages below a subscription's page."""

    def __init__(self, served: Served, sources: PageSources) -> None:
        self._served = served
        self._sources = sources
        self._templates = PageTemplates()

    def route(self, path: str, template: str, title: str, build: Build) -> Route:
        """``title`` is followed by the name of the subscription."""

        def show(request: Request) -> Response:
            subid: int = request.path_params["subid"]
            one = find_observation(self._served, subid)
            if one is None:
                return PlainTextResponse("not found\n", 404)
            whole_title, asked = f"{title} of {one.name}", dict(request.query_params)
            try:
                shown = self._sources.questions.ask(partial(build, self._sources, one, asked))
            except SubscriberError as error:
                return self._templates.failure(error, whole_title, f"/subscriptions/{subid}")
            return self._templates.page(self._templates.content(template, shown), whole_title)

        return Route(f"/subscriptions/{{subid:subid}}/{path}", show)


def find_observation(served: Served, subid: int) -> Observation | None:
    return next((one for one in served.observe().subscriptions if one.subscription.subid == subid), None)
