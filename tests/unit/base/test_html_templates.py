"""Text can never become markup, whatever stands in it."""

from __future__ import annotations

import sys

import pytest

from subscriber.base.errors import UsageError
from subscriber.base.html_templates import as_html, html_templates


def rendered(template: str, **values: object) -> str:
    return html_templates("subscriber.operate", {}).from_string(template).render(values)


def test_text_is_escaped_in_elements_and_in_attributes():
    assert rendered("<p>{{ text }}</p>", text="<script>&") == "<p>&lt;script&gt;&amp;</p>"
    assert rendered('<a href="{{ text }}">', text="\"'><x>") == '<a href="&#34;&#39;&gt;&lt;x&gt;">'


@pytest.mark.parametrize(
    ("control", "picture"), [("\0", "␀"), ("\r", "␍"), ("\x1b", "␛"), ("\x7f", "␡"), ("\t", "\t"), ("\n", "\n")]
)
def test_control_characters_are_shown_but_those_that_a_browser_shows_itself(control, picture):
    assert rendered("{{ text }}", text=f"a{control}b") == f"a{picture}b"


def test_half_of_a_surrogate_pair_is_a_reference():
    assert as_html("\ud800") == b"&#55296;"


def test_without_jinja2_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match="Jinja2"):
        html_templates("subscriber.operate", {})
