"""Writes the results into the documents: ``python -m benchmarks.page``, after ``make bench``.

::

    results/full.json ──▶ tables   ──▶ docs/performance.md, README.md   between the lines that begin with <!--
                     └──▶ pictures ──▶ results/ratios-light.svg, results/ratios-dark.svg   shown by README.md
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.measure import NATIVE
from benchmarks.picture import THEMES, picture
from benchmarks.results import Json, short

ROOT: Final = Path(__file__).resolve().parent.parent
_PICTURE: Final = """\
<picture>
  <source media="(prefers-color-scheme: dark)" srcset="benchmarks/results/ratios-dark.svg">
  <img alt="Speed of each workload and target, as a ratio to native" src="benchmarks/results/ratios-light.svg">
</picture>"""
_USAGE: Final = "### Memory and processor time"
RESULTS: Final = ROOT / "benchmarks" / "results" / "full.json"


def documents(results: Json) -> dict[Path, str]:
    """The documents and pictures with these results, by path."""
    performance, readme = ROOT / "docs" / "performance.md", ROOT / "README.md"
    measured = [circumstances(results), rates(results), _USAGE, usage(results)]
    return {
        **{RESULTS.with_name(f"ratios-{name}.svg"): picture(results, theme) for name, theme in THEMES.items()},
        performance: between(performance.read_text(), "results", "\n\n".join(measured)),
        readme: between(readme.read_text(), "results", f"{_PICTURE}\n\n{ratios(results)}"),
    }


def circumstances(results: Json) -> str:
    """A sentence on what was measured where."""
    machine, versions = results["machine"], results["versions"]
    postgresql = re.search(r"\d+\.\d+", versions["postgresql"])
    part = "" if results["size"] == 1 else f" The workloads had {results['size']:g} of their full size."
    return (
        f"Measured at commit {results['commit']} on {results['date']}: {machine['processor']}, {machine['cores']} cores,"
        f" {machine['memory_gib']} GiB, PostgreSQL {postgresql.group() if postgresql else '18'},"
        f" Spark {versions['pyspark']}, Python {versions['python']}; medians of {results['runs']}.{part}"
    )


def rates(results: Json) -> str:
    """Changes or rows per second of each subscriber, with the ratio to native in brackets."""
    names = subscribers(results)
    return _table(
        ["", "Workload", *names],
        (
            [workload, figures["what"], *(rate(figures["subscribers"].get(name, {})) for name in names)]
            for workload, figures in results["workloads"].items()
        ),
    )


def ratios(results: Json) -> str:
    """The ratios to native, and the latencies."""
    names = [name for name in subscribers(results) if name != NATIVE]
    return _table(
        ["", "Workload", *names],
        (
            [workload, figures["what"], *(ratio(figures["subscribers"].get(name, {})) for name in names)]
            for workload, figures in results["workloads"].items()
        ),
    )


def usage(results: Json) -> str:
    """Peak memory in MiB, and processor seconds by part."""
    parts = ["walsender", "receiver", "driver", "workers", "jvm", "target"]
    return _table(
        ["", "Subscriber", "Python, MiB", "JVM, MiB", *(f"{part}, s" for part in parts)],
        (
            [
                workload,
                name,
                *(f"{found[key]:,}" if found.get(key) else "" for key in ("python_mib", "jvm_mib")),
                *(f"{found['cpu_seconds'][part]:.1f}" if part in found["cpu_seconds"] else "" for part in parts),
            ]
            for workload, figures in results["workloads"].items()
            for name, found in figures["subscribers"].items()
            if "cpu_seconds" in found
        ),
    )


def subscribers(results: Json) -> list[str]:
    """The names of all subscribers; ``native`` is the first."""
    return list(dict.fromkeys(name for one in results["workloads"].values() for name in one["subscribers"]))


def rate(figures: Json) -> str:
    """A cell: a rate or two latencies, and the ratio."""
    if "p50_ms" in figures:
        said = _latencies(figures)
    elif "per_second" in figures:
        said = f"{figures['per_second']:,.0f}/s"
    else:
        return str(figures.get("failure", ""))
    return f"{said} ({short(figures['ratio'])})" if "ratio" in figures else said


def ratio(figures: Json) -> str:
    """A cell: the ratio, two latencies, or why there is neither."""
    if "p50_ms" in figures:
        return _latencies(figures)
    return short(figures["ratio"]) if "ratio" in figures else str(figures.get("failure", ""))


def between(text: str, name: str, content: str) -> str:
    """A document with other content between ``<!-- name: begin … -->`` and ``<!-- name: end -->``.

    Raises:
        ValueError: the document does not have the two lines.
    """
    found = re.search(rf"(<!-- {name}: begin[^\n]*-->\n).*?(<!-- {name}: end -->)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"the document has no place for {name}")
    return f"{text[: found.start()]}{found[1]}\n{content}\n\n{found[2]}{text[found.end() :]}"


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def _latencies(figures: Json) -> str:
    return f"{_milliseconds(figures['p50_ms'])} and {_milliseconds(figures['p99_ms'])} ms"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def main() -> None:
    """Write the documents and pictures."""
    for path, text in documents(json.loads(RESULTS.read_text())).items():
        path.write_text(text)


if __name__ == "__main__":
    main()
