"""Templates, and the frame that all pages have: title, navigation, the address of events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.filesize import decimal
from starlette.responses import HTMLResponse

from subscriber.base.errors import SubscriberError, UsageError
from subscriber.base.html_templates import as_html, html_templates


class PageTemplates:
    def __init__(self) -> None:
        filters = {"size": lambda number: "?" if number is None else decimal(number), "number": "{:,.0f}".format}
        self._templates = html_templates("subscriber.operate", filters)

    def content(self, template: str, shown: Mapping[str, Any]) -> str:
        return self._templates.get_template(template).render(shown)

    def page(self, content: str, title: str, *, events: str | None = None, status: int = 200) -> HTMLResponse:
        """A page of a content; with ``events``, the content is kept up to date from there."""
        frame = self._templates.get_template("page.html")
        return HTMLResponse(as_html(frame.render(content=content, title=title, events=events)), status)

    def failure(self, error: SubscriberError, title: str, back: str) -> HTMLResponse:
        """The page of an error: 400 if the request was wrong, else 503."""
        content = self.content("failure.html", {"title": title, "error": error.report(), "back": back})
        return self.page(content, title, status=400 if isinstance(error, UsageError) else 503)
