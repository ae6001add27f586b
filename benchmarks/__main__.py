"""``make bench``: measures the workloads W1 to W7 with every kind of target and with PostgreSQL's
own subscriber, in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks.measure import bench
from benchmarks.results import Json, circumstances, describe, fallen, table
from benchmarks.workloads import BY_NAME
from subscriber.scenario.servers.fresh_targets import TARGET_KINDS


def main() -> int:
    """Run the benchmarks, and print the results as a table.

    Returns:
        The exit code: 1 if a ratio has fallen, see ``--compare``.
    """
    options = _options()
    results: Json = {**circumstances(), "size": options.size, "runs": options.runs, "workloads": {}}
    with bench(options.limit, _say) as servers:
        for name in options.only:
            workload = BY_NAME[name].scaled(options.size)
            results["workloads"][name] = describe(workload, servers.measure(workload, options.targets, options.runs))
            if options.json:
                # After each workload, so that an interrupted run has results.
                options.json.parent.mkdir(parents=True, exist_ok=True)
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    print(table(results))
    sentences = fallen(results, json.loads(options.compare.read_text())) if options.compare else []
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 1 if sentences else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--only", type=_among(BY_NAME), default=[*BY_NAME], metavar="W1,W2", help="workloads (default: all)"
    )
    parser.add_argument(
        "--targets",
        type=_among(TARGET_KINDS),
        default=[*TARGET_KINDS],
        metavar="NAMES",
        help="kinds of targets (default: all)",
    )
    parser.add_argument("--runs", type=int, default=3, help="runs that the median is taken of (default: 3)")
    parser.add_argument("--size", type=float, default=1.0, help="the part of the changes and rows (default: 1)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a measurement may take (default: 300)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="results of the same size: exit with 1 if a ratio fell by more than a third",
    )
    return parser.parse_args()


def _among(known: Collection[str]) -> Callable[[str], list[str]]:
    def read(text: str) -> list[str]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(unknown)}")
        return names

    return read


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
