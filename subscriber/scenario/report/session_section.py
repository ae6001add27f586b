"""A session on the page: what was typed, with the expected and the printed lines side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

from subscriber.scenario.expected_failures import ExpectedFailures, expected_key
from subscriber.scenario.report.entries import Entry, class_of, sign_of
from subscriber.scenario.report.markup import Html, element, join
from subscriber.scenario.report.side_by_side import Line, Mark, side_by_side
from subscriber.scenario.run_session import Exchange
from subscriber.scenario.session.session_file import Statement
from subscriber.scenario.stage import is_publisher

_STATES: Final = {"differs": "differs", "broken": "did not end", "unreached": "not run", "agrees": ""}
"""State of a statement → the text that is shown for it."""


def session_section(entry: Entry, others: Sequence[Entry], expected: ExpectedFailures, after: Entry | None) -> Html:
    """The section of a session: the reasons for its verdict, and every statement.

    Args:
        entry: the session's result.
        others: the entries of the same scenario, in all setups.
        expected: why some of the scenarios were expected to fail.
        after: the next failure in the table; None if there is no other.
    """
    result = entry.result
    scenario = result.scenario
    heading = f"{entry.anchor}:heading"
    return element(
        "section",
        element(
            "header",
            element(
                "nav",
                element("a", "← All scenarios", href=f"#{entry.row}", class_="back"),
                element("a", "Next failure →", href=f"#{after.anchor}") if after else "",
            ),
            element("h1", element("span", scenario.name, class_="name dim"), " ", scenario.title, id=heading),
            element("ul", *[_other(other, current=other is entry) for other in others], class_="others"),
            *_reasons(entry, expected),
        ),
        *_statements(entry),
        id=entry.anchor,
        class_="session",
        tabindex="-1",
        aria_labelledby=heading,
    )


def _other(entry: Entry, *, current: bool) -> Html:
    setup = entry.result.setup
    return element(
        "li",
        element(
            "a",
            sign_of(entry.verdict),
            f"{setup}: {entry.verdict}",
            "" if entry.verdict == "skipped" else f", {entry.result.seconds:.1f} s",
            href=f"#{entry.anchor}",
            aria_current="page" if current else "",
            class_=f"verdict {class_of(entry.verdict)}",
        ),
    )


def _reasons(entry: Entry, expected: ExpectedFailures) -> Iterator[Html]:
    """The reasons for the verdict that are not visible at the statements."""
    result = entry.result
    known = expected.get(expected_key(result))
    if result.skipped:
        yield _reason("skipped", f"Skipped: {result.skipped}.")
    elif known is not None and entry.verdict == "failed as expected":
        yield _reason("failed-as-expected", f"Expected to fail {known.until}: {known.reason}")
    elif known is not None and entry.verdict == "passed unexpectedly":
        yield _reason(
            "passed-unexpectedly",
            f"Passed, although it was expected to fail {known.until}. Remove it from expected_failures.toml."
            f" The reason in the file: {known.reason}",
        )
    if result.failures:
        places = [_to_statement(entry, exchange, f"line {exchange.statement.line}") for exchange in result.failures]
        yield _reason(
            "failed", "Failed statements: ", *[join(", " if number else "", one) for number, one in enumerate(places)]
        )
    if result.leftover:
        yield _reason("failed", "The cleanup failed:", element("pre", result.leftover, class_="error"))


def _reason(kind: str, *inside: str) -> Html:
    return element("div", *inside, class_=f"why {kind}")


def _statements(entry: Entry) -> Iterator[Html]:
    exchanges = entry.result.exchanges
    if exchanges:
        yield element("div", *[element("div", name) for name in ("Line", "Expected", "Actual")], class_="headings")
    for exchange in exchanges or map(Exchange, entry.result.scenario.statements):
        yield _statement(entry, exchange)


def _statement(entry: Entry, exchange: Exchange) -> Html:
    state = _state(exchange)
    statement = exchange.statement
    return element(
        "article",
        element("div", _to_statement(entry, exchange, str(statement.line)), class_="line-number"),
        element(
            "div",
            element("div", element("pre", *_typed(statement)), element("span", _STATES[state]), class_="typed"),
            _sides(statement, exchange.printed),
            *[element("pre", text, class_="error") for text in (exchange.error, exchange.disagreement) if text],
            class_="box",
        ),
        id=_anchor(entry, exchange),
        class_=f"statement {state}",
    )


def _state(exchange: Exchange) -> str:
    if exchange.error:
        return "broken"
    if exchange.printed is None:
        return "unreached"
    return "differs" if exchange.failed else "agrees"


def _anchor(entry: Entry, exchange: Exchange) -> str:
    return f"{entry.anchor}:line-{exchange.statement.line}"


def _to_statement(entry: Entry, exchange: Exchange, text: str) -> Html:
    return element("a", text, href=f"#{_anchor(entry, exchange)}")


def _typed(statement: Statement) -> Iterator[str]:
    """What was typed, after prompts as psql shows them."""
    node = f"{statement.node}/{statement.session}" if statement.session else statement.node
    kind = "prompt publisher" if is_publisher(statement.node) else "prompt"
    for number, line in enumerate(statement.text.split("\n")):
        yield "\n" if number else ""
        yield element("span", f"{node}{'-' if number else '='}# ", class_=kind)
        yield line


# Side by side -------------------------------------------------------------------------------------


# Most statements print the same in every setup, and the results of one scenario are consecutive.
@lru_cache(maxsize=1000)
def _sides(statement: Statement, printed: str | None) -> Html:
    pairs = side_by_side(statement, printed)
    if not pairs:
        return Html("")
    return element("div", _side([pair[0] for pair in pairs]), _side([pair[1] for pair in pairs]), class_="sides")


def _side(lines: Sequence[Line | None]) -> Html:
    """One of the two sides.

    Consecutive lines without marks share an element, because there are many such lines.
    """
    shown: list[Html] = []
    for mark, run in groupby(lines, key=lambda line: line.mark if line else None):
        if mark in (None, Mark.AGREES, Mark.ASIDE):
            # A blank keeps the height of a line that only the other side has.
            text = "\n".join([line.text if line else " " for line in run])
            shown.append(element("div", text, class_="aside" if mark is Mark.ASIDE else ""))
        else:
            shown += [_marked(line) for line in run if line is not None]
    return element("div", *shown, class_="lines")


def _marked(line: Line) -> Html:
    before, differs, after = line.text[: line.start], line.text[line.start : line.stop], line.text[line.stop :]
    inside = [before, element("mark", differs), after] if differs else [line.text]
    return element("div", *inside, class_=line.mark.value)
