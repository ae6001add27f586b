"""The picture of the ratios in the README: an SVG for light and one for dark pages.

::

    W1  one transaction of …              ├────────●│         sqlite       each lane: a line from native (1.0)
                                          │     ├──●│         duckdb       to the ratio, on a logarithmic scale

The text of the SVG is put together here: a library for pictures would be a dependency for one file.
What did not finish has a sentence in place of a dot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Final

from benchmarks.measure import NATIVE
from benchmarks.results import Json, short

TICKS: Final = (0.001, 0.01, 0.1, 1.0, 10.0)
_WIDTH, _LEFT, _RIGHT = 860, 330, 50
_TOP, _LANE, _GAP = 64, 15, 15
_FONT: Final = 'font-family="system-ui, sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a picture."""

    text: str
    quiet: str
    grid: str
    subscribers: tuple[str, ...]


THEMES: Final = {
    "light": Theme("#1f2328", "#59636e", "#d1d9e0", ("#0072b2", "#b35c00", "#00785a", "#a8427f")),
    "dark": Theme("#e6edf3", "#9198a1", "#3d444d", ("#56b4e9", "#e69f00", "#2fbf95", "#e08fc0")),
}


def picture(results: Json, theme: Theme) -> str:
    """The ratios of results as an SVG."""
    workloads = results["workloads"]
    names = list(dict.fromkeys(name for one in workloads.values() for name in one["subscribers"] if name != NATIVE))
    colours = {name: theme.subscribers[number % len(theme.subscribers)] for number, name in enumerate(names)}
    group = len(names) * _LANE + _GAP
    height = _TOP + len(workloads) * group + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" {_FONT} role="img">',
        "<title>Speed of each workload and target, as a ratio to PostgreSQL's own subscriber</title>",
        *_legend(colours, theme),
        *_grid(theme, height),
    ]
    for number, (name, figures) in enumerate(workloads.items()):
        top = _TOP + number * group
        parts += _group(name, figures, top, colours, theme)
    return "\n".join([*parts, "</svg>\n"])


def place(ratio: float) -> float:
    """The x coordinate of a ratio. What is beyond the scale is at its end."""
    low, high = math.log10(TICKS[0]), math.log10(TICKS[-1])
    part = (math.log10(max(ratio, 1e-9)) - low) / (high - low)
    return round(_LEFT + min(max(part, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT), 1)


def _legend(colours: dict[str, str], theme: Theme) -> Iterator[str]:
    yield _text(0, 16, "Against PostgreSQL's own subscriber in the same run; to the right is faster", theme.quiet)
    for number, (name, colour) in enumerate(colours.items()):
        x = _LEFT + number * 110
        yield f'<circle cx="{x + 5}" cy="32" r="4.5" fill="{colour}"/>'
        yield _text(x + 15, 36, name, theme.text)


def _grid(theme: Theme, height: int) -> Iterator[str]:
    for tick in TICKS:
        x, is_native = place(tick), tick == 1.0
        colour, width = (theme.quiet, 1.5) if is_native else (theme.grid, 1)
        yield f'<line x1="{x}" y1="{_TOP - 6}" x2="{x}" y2="{height - 14}" stroke="{colour}" stroke-width="{width}"/>'
        yield _text(x, _TOP - 10, "native" if is_native else f"{tick:g}", theme.quiet, "middle")


def _group(name: str, figures: Json, top: int, colours: dict[str, str], theme: Theme) -> Iterator[str]:
    yield _text(0, top + 12, name, theme.text, weight="bold")
    for line, words in enumerate(_wrapped(figures["what"], 46)):
        yield _text(30, top + 12 + 15 * line, words, theme.text)
    for lane, (subscriber, colour) in enumerate(colours.items()):
        y = top + lane * _LANE + 8
        found = figures["subscribers"].get(subscriber, {})
        if "ratio" in found:
            x = place(found["ratio"])
            yield f'<line x1="{place(1.0)}" y1="{y}" x2="{x}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
            yield f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}"/>'
            right = found["ratio"] >= 1
            yield _text(x + (9 if right else -9), y + 4, short(found["ratio"]), theme.text, "start" if right else "end")
        elif "failure" in found:
            yield _text(_LEFT, y + 4, f"{subscriber}: {found['failure']}", theme.quiet)


def _wrapped(words: str, columns: int) -> list[str]:
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= columns:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _text(x: float, y: float, words: str, colour: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}">{escape(words)}</text>'
