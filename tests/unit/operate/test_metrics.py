"""The table of metrics, in the format of Prometheus."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from subscriber.base.errors import ConflictError, UsageError
from subscriber.base.lsn import LSN
from subscriber.base.retry import FailedAttempts
from subscriber.catalog.table_states import RelationState
from subscriber.operate.exposition import RunCollector, exposition, registry
from subscriber.operate.metrics import METRICS, RUN_METRICS, Metric, RunMetric
from subscriber.operate.observation import Observation, RunObservation
from subscriber.operate.sampler import ProcessSample, PublisherSample
from subscriber.worker.copy_progress import CopyStatus
from subscriber.worker.worker_state import WorkerState
from tests.conftest import server_or_skip
from tests.observations import NOW, observation, relations, run_of, slot, subscription
from tools.metrics_page import metrics_page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scraped(run: RunObservation, most_tables: int = 200) -> str:
    return exposition(registry(RunCollector(lambda: run, most_tables))).decode()


def series(*observations: Observation, most_tables: int = 200) -> Series:
    text = scraped(run_of(*observations), most_tables)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: Series, name: str, **labels: str) -> float | None:
    return found.get((f"subscriber_{name}", frozenset({"subscription": "s", **labels}.items())))


def counts(*events: tuple[object, ...]) -> Counter[tuple[str, ...]]:
    """What a worker counts: each event is the arguments of ``state.count``."""
    state = WorkerState(None, subscription())  # type: ignore[arg-type]
    for name, number, *labels in events:
        state.count(str(name), float(str(number)), *map(str, labels))
    return state.counts


def test_the_page_is_the_one_that_the_table_makes():
    assert PAGE.read_text() == metrics_page(), "run `make docs`"


def test_names_follow_the_conventions_of_prometheus():
    metrics: list[Metric | RunMetric] = [*METRICS, *RUN_METRICS]
    assert len({one.name for one in metrics}) == len(metrics)
    for one in metrics:
        assert re.fullmatch(r"subscriber_[a-z_]+", one.name), one.name
        assert one.name.endswith("_total") is (one.kind == "counter"), one.name
        assert one.help.endswith("."), one.name


class Promtool:
    """The program of Debian's package prometheus."""

    def __init__(self) -> None:
        if shutil.which("promtool") is None:
            raise UsageError("promtool was not found on this machine", hint="Install prometheus.")

    def check(self, metrics: str) -> subprocess.CompletedProcess[str]:
        command = ["promtool", "check", "metrics"]
        return subprocess.run(command, input=metrics, capture_output=True, text=True, check=False)


def test_promtool_finds_no_fault():
    busy = observation(worker={"counts": counts(("rows", 3, "public", "a", "insert"), ("commit_to_visible", 1, "0.1"))})
    checked = server_or_skip(Promtool).check(scraped(run_of(busy)))
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_the_state_is_one_of_all_states():
    found = series(observation())
    states = {dict(labels)["state"]: number for (name, labels), number in found.items() if name.endswith("n_state")}
    assert states == {
        "starting": 0, "copying": 0, "streaming": 1, "retrying": 0, "stopped": 0, "disabled": 0, "paused": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (observation(subscription=subscription(enabled=False), worker=None), "disabled"),
        (observation(worker=None), "starting"),
        (observation(worker={"stopped": True}), "stopped"),
        (observation(worker={"applying": FailedAttempts(ConflictError("no"), 1, 1)}), "retrying"),
    ],
)
def test_a_subscription_without_work_has_a_state_too(one, state):
    assert value(series(one), "subscription_state", state=state) == 1


def test_counts_come_from_where_they_are_counted():
    found = series(
        observation(
            worker={
                "counts": counts(
                    ("received_bytes", 4096), ("rows", 3, "public", "a", "insert"), ("rows", 2, "public", "a", "insert"),
                    ("conflicts", 1, "update_missing"), ("batches", 1, "exact", "skip"), ("notices", 2),
                    ("batch_seconds", 0.25, "commit"),
                ),
            }
        )
    )  # fmt: skip
    assert value(found, "received_bytes_total") == 4096
    assert value(found, "rows_total", schema="public", table="a", operation="insert") == 5
    assert value(found, "conflicts_total", kind="update_missing") == 1
    assert value(found, "batches_total", path="exact", reason="skip") == 1
    assert value(found, "batch_seconds_total", stage="commit") == 0.25
    assert value(found, "notices_total") == 2


def test_what_may_happen_is_0_before_it_has_happened():
    """Otherwise the first event increases nothing that an alert could see."""
    found = series(observation())
    assert value(found, "conflicts_total", kind="insert_exists") == 0
    assert value(found, "skipped_transactions_total") == 0
    assert value(found, "replaced_values_total") == 0


def test_beyond_so_many_tables_rows_are_counted_together():
    events = [("rows", 1, "public", f"t{number}", "insert") for number in range(5)]
    found = series(observation(worker={"counts": counts(*events)}), most_tables=2)
    assert value(found, "rows_total", schema="public", table="t1", operation="insert") == 1
    assert value(found, "rows_total", schema="public", table="t2", operation="insert") is None
    assert value(found, "rows_total", schema="", table="other", operation="insert") == 3


def test_a_histogram_has_its_buckets_its_number_and_its_sum():
    state = WorkerState(None, subscription())  # type: ignore[arg-type]
    for seconds in (0.05, 0.2, 0.2, 9999.0):
        state.count_seconds("commit_to_visible", seconds)
    found = series(observation(worker={"counts": state.counts}))
    assert value(found, "commit_to_visible_seconds_bucket", le="0.1") == 1
    assert value(found, "commit_to_visible_seconds_bucket", le="0.25") == 3
    assert value(found, "commit_to_visible_seconds_bucket", le="+Inf") == 4
    assert value(found, "commit_to_visible_seconds_sum") == pytest.approx(9999.45)


def test_what_is_not_known_is_absent():
    away = PublisherSample((), {}, 0, "could not connect")
    found = series(observation(publisher=away, journal=None, receiver=None))
    assert value(found, "publisher_up") == 0
    for name in ("lag_seconds", "lag_bytes", "slot_active", "slot_retained_bytes", "publisher_lsn", "journal_bytes"):
        assert value(found, name) is None, name


def test_what_the_publisher_says_of_the_slot_is_shown():
    lost = {
        "s": slot(wal_status="unreserved", active_pid=None, inactive_since=NOW - 5, safe_wal_size=-3, failover=True)
    }
    one = observation()
    found = series(observation(publisher=PublisherSample(one.publisher.moments, lost, 180000)))
    assert value(found, "slot_wal_status", status="unreserved") == 1
    assert value(found, "slot_retained_bytes") == 500
    assert value(found, "slot_safe_bytes") == -3
    assert value(found, "slot_active") == 0
    assert value(found, "slot_failover") == 1
    assert value(found, "slot_inactive_since_timestamp_seconds") == NOW - 5


def test_the_series_of_what_is_gone_vanish():
    observed = [run_of(observation(), observation("t", 2))]
    made = registry(RunCollector(lambda: observed[-1], 200))
    assert 'subscription="t"' in exposition(made).decode()
    observed.append(run_of(observation()))
    assert 'subscription="t"' not in exposition(made).decode()


def test_copies_and_table_states_are_gauges():
    copy = CopyStatus(10, 100, 50, 500, 1.0, "", schema="public", name="a")
    tables = relations("a", state=RelationState.DATASYNC)
    found = series(observation(worker={"copies": (copy,), "relations": tables}))
    assert value(found, "copy_rows", schema="public", table="a") == 10
    assert value(found, "tables", state="d") == 1
    assert value(found, "tables", state="r") == 0


def test_the_run_has_metrics_of_its_own_and_of_its_process():
    text = scraped(run_of(observation(), jvm=ProcessSample(1024, 2.0)))
    assert "subscriber_jvm_resident_memory_bytes 1024.0" in text
    assert "process_resident_memory_bytes" in text


def test_nothing_secret_is_in_a_scrape():
    one = observation(worker={"applying": FailedAttempts(ConflictError("duplicate key", detail="(42) exists"), 1, 1)})
    assert "secret" not in scraped(run_of(one))
    assert "duplicate" not in scraped(run_of(one))


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8")))
def test_any_name_of_a_table_is_a_label_and_nothing_else(schema, table):
    found = series(observation(worker={"counts": counts(("rows", 1, schema, table, "insert"))}))
    labelled = [dict(labels) for (name, labels) in found if name == "subscriber_rows_total"]
    assert len(labelled) == 1
    assert labelled[0]["operation"] == "insert"


def test_positions_are_numbers_of_bytes():
    found = series(observation(worker={"received": LSN(0x1_0000_0000)}))
    assert value(found, "received_lsn") == 2**32
