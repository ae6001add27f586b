"""The alerts on what real runs have shown of each trouble (tests/recordings/record_troubles.py).

A film is shown slowly, so that the ten seconds between two of its scrapes are five minutes for
Prometheus; ages and the times of events are stretched, too. So two minutes of trouble last an hour.
"""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.recordings.record_troubles import FILE, NAMES, SCRAPE_SECONDS, Film
from tests.unit.test_operations_files import OPS, RULES, tool

MINUTES: Final = 5
SLOWER: Final = MINUTES * 60 / SCRAPE_SECONDS
INSTANCE: Final = {"job": "subscriber", "instance": "db1:9187"}
FILMS: Final[Mapping[str, Film]] = json.loads(lzma.decompress(FILE.read_bytes()))

NOT_FAILOVER_READY: Final = {(name, "SubscriberNotFailoverReady") for name in NAMES}
EXPECTED: Final = {
    "troubles": {
        ("", "SubscriberDown"),
        ("conflict", "SubscriberConflict"),
        ("conflict", "SubscriberLag"),
        ("skipped", "SubscriberConflict"),
        ("skipped", "SubscriberSkippedTransactions"),
        ("replaced", "SubscriberReplacedValues"),
        ("uncopied", "SubscriberTableFailed"),
        ("stopped", "SubscriberStopped"),
        ("abandoned", "SubscriberSlotInactive"),
        ("abandoned", "SubscriberRetainedWalStalled"),
        ("abandoned", "SubscriberRetainedWal"),
        ("abandoned", "SubscriberSlotLost"),
        ("killed_receiver", "SubscriberRestarts"),
        ("stopped", "SubscriberNothingConfirmed"),
        ("waiting", "SubscriberNothingConfirmed"),
        ("waiting", "SubscriberLag"),
        *(NOT_FAILOVER_READY - {("waiting", "SubscriberNotFailoverReady"), ("stopped", "SubscriberNotFailoverReady")}),
    },
    "small disk": {("disk", "SubscriberJournalDisk")},
}


Labels = frozenset[tuple[str, str]]


def samples(at: float, text: str | None) -> Iterator[tuple[tuple[str, Labels], float]]:
    """The series of a scrape; ``at`` is when, in seconds since the beginning of the film."""
    yield ("up", frozenset(INSTANCE.items())), float(text is not None)
    for family in text_string_to_metric_families(text or ""):
        for sample in family.samples:
            yield (sample.name, frozenset({**sample.labels, **INSTANCE}.items())), sample.value


def slowly(film: Film) -> list[dict[str, Any]]:
    """The series of a film as promtool wants them: a value a minute, each for five minutes."""
    began = film[0][0]
    series: dict[tuple[str, Labels], list[str]] = defaultdict(list)
    for number, (at, text) in enumerate(film):
        now = number * MINUTES * 60
        for (name, labels), value in samples(at, text):
            values = series[name, labels]
            values += ["stale"] * (number * MINUTES - len(values))
            for minute in range(MINUTES):
                if name.endswith("_timestamp_seconds"):  # it stays as long ago as it is
                    shown = now + minute * 60 - (at - value) * SLOWER
                elif name == "process_start_time_seconds":
                    shown = value - began
                else:
                    shown = value * SLOWER if name == "subscriber_lag_seconds" else value
                values.append(f"{shown:f}")
    end = len(film) * MINUTES
    return [
        {"series": name + json_labels(labels), "values": " ".join(values + ["stale"] * (len(values) < end))}
        for (name, labels), values in series.items()
        if name in asked()
    ]


def json_labels(labels: Labels) -> str:
    return "{" + ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels) if value) + "}"


def asked() -> set[str]:
    """The metrics that the alerts ask for."""
    return set(re.findall(r"\b(?:subscriber_\w+|up|process_start_time_seconds)\b", " ".join(r["expr"] for r in RULES)))


@pytest.mark.parametrize("name", FILMS)
def test_real_troubles_raise_their_alerts_and_no_others(name, tmp_path):
    shutil.copy(OPS / "prometheus-rules.yml", tmp_path)
    film = FILMS[name]
    end = len(film) * MINUTES - 1
    fired = 'count by (subscription, alertname) (max_over_time(ALERTS{alertstate="firing"}[1d]))'
    test = {
        "interval": "1m",
        "input_series": slowly(film),
        "promql_expr_test": [
            {
                "expr": f"{fired} > bool 0",
                "eval_time": f"{end}m",
                "exp_samples": [
                    {"labels": json_labels(frozenset({("alertname", alert), ("subscription", of)})), "value": 1}
                    for of, alert in EXPECTED[name]
                ],
            }
        ],
    }
    page = {"rule_files": ["prometheus-rules.yml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "film.yml").write_text(yaml.safe_dump(page, width=1000))
    command = [tool("promtool"), "test", "rules", "film.yml"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_the_films_have_every_alert():
    assert {alert for fired in EXPECTED.values() for _, alert in fired} == {rule["alert"] for rule in RULES}


def test_the_films_have_the_metrics_of_today():
    """Otherwise they are to be recorded again."""
    recorded = {key[0] for film in FILMS.values() for at, text in film for key, _ in samples(at, text)}
    assert asked() <= recorded
