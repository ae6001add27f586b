"""Markup: text can never become markup, whatever stands in it."""

from __future__ import annotations

import pytest

from subscriber.scenario.report.markup import Html, element, escape, join, void


def test_text_inside_an_element_is_escaped_and_markup_is_not():
    made = element("p", "<script>&", element("b", "bold"), Html("<i></i>"))
    assert made == "<p>&lt;script&gt;&amp;<b>bold</b><i></i></p>"


def test_text_that_was_made_of_markup_is_text_again():
    """Only what markup's own functions return is markup: str methods and f-strings give text."""
    assert join(f"{element('b', 'x')}") == "&lt;b&gt;x&lt;/b&gt;"
    assert join(element("b", "x").upper()) == "&lt;B&gt;X&lt;/B&gt;"


def test_an_attribute_cannot_be_left_by_a_quote():
    assert element("a", href="\"'><x>") == '<a href="&quot;&#x27;&gt;&lt;x&gt;"></a>'
    assert element("a", title=Html('"')) == '<a title="&quot;"></a>'


def test_attributes_are_named_as_html_names_them_and_left_out_when_there_is_nothing_to_say():
    made = void("input", class_="a", aria_label="b", http_equiv="c", hidden=True, disabled=False, title="")
    assert made == '<input class="a" aria-label="b" http-equiv="c" hidden>'


@pytest.mark.parametrize(
    ("control", "picture"), [("\0", "␀"), ("\r", "␍"), ("\x1b", "␛"), ("\x7f", "␡"), ("\t", "\t"), ("\n", "\n")]
)
def test_control_characters_are_shown_but_those_that_a_browser_shows_itself(control, picture):
    assert escape(f"a{control}b") == f"a{picture}b"
