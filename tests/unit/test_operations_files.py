"""The files in ops/: alerts, the board and the systemd unit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from subscriber.cli.run import END_SECONDS
from tests.random_seed import IN_CI

ROOT = Path(__file__).resolve().parents[2]
OPS = ROOT / "ops"
RULES = yaml.safe_load((OPS / "prometheus-rules.yml").read_text())["groups"][0]["rules"]
PROMETHEUS = yaml.safe_load((OPS / "prometheus.yml").read_text())
ALERTS = (ROOT / "docs" / "alerts.md").read_text()
OPERATING = (ROOT / "docs" / "operating.md").read_text()


def tool(name: str) -> str:
    """A program of Debian; the test is skipped without it, and fails in CI."""
    found = shutil.which(name)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)(f"{name} is not installed")
    return str(found)


def checked(*command: str, folder: Path = OPS) -> str:
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


# Alerts -------------------------------------------------------------------------------------------


def test_prometheus_accepts_the_rules():
    checked(tool("promtool"), "check", "rules", "prometheus-rules.yml")


def test_each_trouble_raises_its_alert_and_a_healthy_hour_none(tmp_path):
    shutil.copy(OPS / "prometheus-rules.yml", tmp_path)
    shutil.copy(ROOT / "tests" / "data" / "prometheus_rules_test.yml", tmp_path)
    checked(tool("promtool"), "test", "rules", "prometheus_rules_test.yml", folder=tmp_path)


def test_every_alert_is_raised_by_a_test():
    tests = yaml.safe_load((ROOT / "tests" / "data" / "prometheus_rules_test.yml").read_text())["tests"]
    raised = {case["alertname"] for test in tests for case in test["alert_rule_test"] if case.get("exp_alerts")}
    assert raised == {rule["alert"] for rule in RULES}


def test_every_alert_has_a_severity_and_a_section_that_says_what_to_do():
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", ALERTS, re.MULTILINE | re.DOTALL))
    assert list(sections) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        name = rule["alert"]
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert re.findall(r"\*\*(.*?)\*\*", sections[name]) == ["Meaning.", "Look at", "Do."], name


def test_prometheus_accepts_the_configuration_of_the_composition():
    checked(tool("promtool"), "check", "config", "--syntax-only", "prometheus.yml")


def test_the_collector_of_the_page_scrapes_what_prometheus_would_and_sends_it_on(tmp_path):
    """Its receiver takes the configuration of Prometheus."""
    (text,) = re.findall(r"^```yaml\n(receivers:.*?)^```", OPERATING, re.MULTILINE | re.DOTALL)
    collector = yaml.safe_load(text)
    assert collector.keys() == {"receivers", "exporters", "service"}
    for pipeline in collector["service"]["pipelines"].values():
        assert pipeline.keys() == {"receivers", "exporters"}
        for kind in pipeline:
            assert set(pipeline[kind]) == collector[kind].keys()
    scraped = collector["receivers"]["prometheus"]["config"]
    (tmp_path / "scraped.yml").write_text(yaml.safe_dump(scraped))
    checked(tool("promtool"), "check", "config", "--syntax-only", "scraped.yml", folder=tmp_path)
    (job,), (ours,) = scraped["scrape_configs"], PROMETHEUS["scrape_configs"]
    assert (job["job_name"], job["authorization"]) == (ours["job_name"], ours["authorization"])
    ports = {target.rpartition(":")[2] for one in (job, ours) for target in one["static_configs"][0]["targets"]}
    assert ports == {"9187"}


# The board ----------------------------------------------------------------------------------------


def test_the_panels_of_the_board_do_not_overlap_and_their_queries_are_valid(tmp_path):
    board = json.loads((OPS / "grafana.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        own = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not own & cells, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        cells |= own
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    rules = [
        {"record": f"q:{number}", "expr": query.replace("$subscription", ".*")} for number, query in enumerate(queries)
    ]
    (tmp_path / "q.yml").write_text(yaml.safe_dump({"groups": [{"name": "q", "rules": rules}]}))
    checked(tool("promtool"), "check", "rules", "q.yml", folder=tmp_path)


def test_alerts_and_board_name_only_metrics_that_there_are():
    page = (ROOT / "docs" / "metrics.md").read_text()
    known = set(re.findall(r"^\| `(subscriber_\w+)`", page, re.MULTILINE))
    board = json.loads((OPS / "grafana.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    used = set(re.findall(r"\bsubscriber_[a-z_]+", " ".join([*(rule["expr"] for rule in RULES), *queries])))
    assert {name.removesuffix("_bucket") for name in used} <= known


# systemd ------------------------------------------------------------------------------------------


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (OPS / "subscriber.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def test_systemd_accepts_the_unit_and_finds_it_safe(tmp_path):
    """The program of the unit is installed nowhere here, so another one stands in its place."""
    text = (OPS / "subscriber.service").read_text().replace("/opt/subscriber/bin/subscriber", "/bin/true")
    (tmp_path / "subscriber.service").write_text(text)
    analyze = tool("systemd-analyze")
    assert checked(analyze, "verify", "--man=no", "./subscriber.service", folder=tmp_path).strip() == ""
    said = checked(analyze, "security", "--offline=yes", "--threshold=20", "./subscriber.service", folder=tmp_path)
    assert "Overall exposure level" in said


def test_the_unit_gives_a_run_the_time_that_it_needs_to_end_and_starts_it_again():
    settings = unit()
    assert settings["Type"] == ["notify"]
    assert float(settings["TimeoutStopSec"][0].removesuffix("s")) > END_SECONDS
    assert (settings["Restart"], settings["KillMode"]) == (["always"], ["mixed"])
    assert settings["StartLimitIntervalSec"] == ["0"]
    assert "WatchdogSec" in settings


def test_a_standby_of_systemd_may_wait_without_limit():
    text = (OPS / "subscriber-standby.conf").read_text()
    assert "TimeoutStartSec=infinity" in text
    assert text.count("ExecStart=") == 2, "the first one removes that of the unit"
