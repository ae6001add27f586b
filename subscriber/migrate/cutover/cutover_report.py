"""The report of a cutover, for the change ticket: JSON, and one page of HTML, which loads and runs
nothing. Every text is escaped, since names of tables are data.
"""

from __future__ import annotations

import html
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from subscriber.base import clock
from subscriber.base.errors import UsageError
from subscriber.migrate.cutover.cutover_servers import CutoverServers

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid #ddd}"
    "td.n{text-align:right;white-space:nowrap}.done,.undone{color:#176d2b}.refused,.failed,.interrupted{color:#a31515}"
    "li,pre{overflow-wrap:anywhere;white-space:pre-wrap}ul{margin:.2rem 0;padding-left:1.2rem}"
)
_KINDS: Final = {"cutover": "Cutover", "dry run": "Dry run of the cutover", "abandon": "Abandoned cutover",
                 "finish": "Finished cutover"}  # fmt: skip


StepStatus = Literal["done", "skipped", "refused", "failed", "interrupted", "would do", "would refuse", "undone"]


@dataclass(slots=True)
class StepResult:
    """How a step has ended; ``title`` is its name for people, ``text`` what was done or why not."""

    name: str
    title: str
    status: StepStatus
    seconds: float
    text: str
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class CutoverReport:
    """What a command has done; it holds no row values and no passwords. Times are in UTC, ISO 8601.
    ``state`` is ``not begun`` if nothing was changed; ``notes`` say what to do next.
    """

    command: Literal["cutover", "dry run", "abandon", "finish"]
    subscription: str
    publisher: str
    target: str
    options: dict[str, object] = field(default_factory=dict)
    begun_at: str = ""
    ended_at: str = ""
    state: str = ""
    barrier: str | None = None
    steps: list[StepResult] = field(default_factory=list)
    error: str | None = None
    notes: list[str] = field(default_factory=list)
    findings: dict[str, object] = field(default_factory=dict)


def new_report(servers: CutoverServers, command: Literal["cutover", "dry run", "abandon", "finish"]) -> CutoverReport:
    return CutoverReport(command, servers.name, servers.publisher_place, servers.target_place, begun_at=clock.now())


def as_json(report: CutoverReport) -> dict[str, Any]:
    return asdict(report)


def as_html(report: CutoverReport) -> str:
    title = f"{_KINDS[report.command]} of subscription {report.subscription}"
    return "\n".join(
        [
            "<!doctype html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{_text(title)}</title><style>{_STYLE}</style></head><body>',
            f"<h1>{_text(title)}</h1>",
            _facts(report),
            "<h2>Steps</h2>",
            "<table><tr><th>Step</th><th>Result</th><th>Time</th><th>What was done</th></tr>",
            *_steps(report),
            "</table>",
            *_error(report),
            *_verified(report),
            *_notes(report),
            "</body></html>\n",
        ]
    )


def prepare_folder(folder: Path) -> None:
    """Make sure that a report can be written (else UsageError 58030), before anything is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"no report can be written to {folder}: {error.strerror}",
            sqlstate="58030",
            hint="--report needs a folder that may be written. Nothing was done.",
        ) from error


def write_report(report: CutoverReport, folder: Path) -> tuple[Path, Path]:
    moment = re.sub(r"[^0-9T]", "", report.begun_at.partition(".")[0])
    name = re.sub(r"[^A-Za-z0-9_-]", lambda found: f"%{ord(found[0]):02X}", report.subscription)[:150]
    base = f"{report.command.replace(' ', '-')}-{name}-{moment}"
    page, data = folder / f"{base}.html", folder / f"{base}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text(as_html(report), encoding="utf-8")
        data.write_text(json.dumps(as_json(report), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {folder}: {error.strerror}",
            sqlstate="58030",
            hint="--report needs a folder that may be written. What was done is not affected.",
        ) from error
    return page, data


def _facts(report: CutoverReport) -> str:
    rows = [
        ("Publisher", report.publisher),
        ("Target", report.target),
        ("Begun", report.begun_at),
        ("Ended", report.ended_at),
        ("State", report.state),
        ("Barrier", report.barrier or "none"),
        ("Options", ", ".join(f"{name} = {value}" for name, value in report.options.items()) or "none"),
    ]
    return (
        "<table>"
        + "".join(f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
        + "</table>"
    )


def _steps(report: CutoverReport) -> Iterator[str]:
    number = 0
    for step in report.steps:
        css = step.status.replace(" ", "-")
        number += step.status != "refused"  # why a step was not begun is no step
        place = "" if step.status == "refused" else f"{number}. "
        yield (
            f'<tr><td>{place}{_text(step.title)}</td><td class="{css}">{_text(step.status)}</td>'
            f'<td class="n">{step.seconds:.2f} s</td><td>{_text(step.text)}{_list(step.details)}</td></tr>'
        )


def _error(report: CutoverReport) -> Iterator[str]:
    if report.error:
        yield f"<h2>Error</h2><pre>{_text(report.error)}</pre>"


def _verified(report: CutoverReport) -> Iterator[str]:
    found = report.findings.get("verify")
    if not isinstance(found, dict) or not found.get("report", {}).get("tables"):
        return
    names = ("publisher_rows", "target_rows", "differing", "only_publisher", "only_target")
    yield f"<h2>Tables, compared at {_text(found['lsn'])}</h2><table><tr><th>Table</th>"
    yield "".join(f"<th>{_text(name.replace('_', ' '))}</th>" for name in names) + "<th>Notes</th></tr>"
    for table in found["report"]["tables"]:
        cells = "".join(f'<td class="n">{_text(table[name])}</td>' for name in names)
        notes = [*table["notes"], *([table["error"]] if table["error"] else [])]
        yield f"<tr><td>{_text(table['table'])}</td>{cells}<td>{_text('; '.join(map(str, notes)))}</td></tr>"
    yield "</table>"


def _notes(report: CutoverReport) -> Iterator[str]:
    if report.notes:
        yield f"<h2>What next</h2>{_list(report.notes)}"


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _text(value: object) -> str:
    return html.escape(str(value))
