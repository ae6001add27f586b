"""HTML elements. Every text is escaped unless it has the type of markup, so no escape can be
forgotten.
"""

from __future__ import annotations

import html
from typing import Final

_VISIBLE: Final = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
"""Control characters → pictures of them (U+2400).

Browsers do not show some control characters, and show a carriage return as a line break.
"""


class Html(str):
    """Markup. Every other string is text."""

    __slots__ = ()


def element(name: str, /, *inside: str, **attributes: str | bool) -> Html:
    """An HTML element. Text inside it is escaped, markup is not.

    Args:
        name: name of the element.
        inside: text and markup.
        attributes: ``class_`` is class, ``aria_label`` is aria-label. True writes only the name of
            the attribute. False and the empty string leave the attribute out.

    >>> element("p", "a < b ", element("b", "or not"), class_="note", hidden=False)
    '<p class="note">a &lt; b <b>or not</b></p>'
    """
    return Html(f"<{name}{_attributes(attributes)}>{join(*inside)}</{name}>")


def void(name: str, /, **attributes: str | bool) -> Html:
    """An element without content, such as ``<col>``."""
    return Html(f"<{name}{_attributes(attributes)}>")


def join(*pieces: str) -> Html:
    """Text and markup, concatenated."""
    return Html("".join([piece if isinstance(piece, Html) else escape(piece) for piece in pieces]))


def escape(text: str) -> Html:
    """Text as markup, with control characters made visible."""
    return Html(html.escape(text.translate(_VISIBLE)))


def _attributes(attributes: dict[str, str | bool]) -> str:
    return "".join(
        f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for name, value in attributes.items()
        if value
    )
