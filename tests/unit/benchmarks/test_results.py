"""Figures of samples, and their comparison with committed results."""

from __future__ import annotations

import pytest

from benchmarks.measure import Outcome, Sample
from benchmarks.process_watch import Usage
from benchmarks.results import describe, fallen, growth, percentile, short
from benchmarks.workloads import BY_NAME


def outcome(*seconds, failure=None):
    samples = [
        Sample(run, Usage(taken, {"driver": taken / 2}, 100.0 + run, 200.0)) for run, taken in enumerate(seconds, 1)
    ]
    return Outcome(samples, failure)


def results(ratio, size=1.0):
    return {"size": size, "workloads": {"W1": {"subscribers": {"native": {}, "sqlite": {"ratio": ratio}}}}}


def test_a_ratio_is_the_median_of_the_ratios_of_the_runs():
    figures = describe(BY_NAME["W7"], {"native": outcome(1, 3, 2), "sqlite": outcome(2, 2, 20)})["subscribers"]
    assert figures["sqlite"]["ratios"] == [0.5, 1.5, 0.1]
    assert figures["sqlite"]["ratio"] == 0.5
    assert figures["sqlite"]["per_second"] == 50_000
    assert figures["sqlite"]["python_mib"] == 103
    assert figures["sqlite"]["cpu_seconds"] == {"driver": 1.0}
    assert "ratio" not in figures["native"]


def test_a_subscriber_that_fails_later_keeps_its_samples():
    figures = describe(BY_NAME["W7"], {"native": outcome(1, 1), "duckdb": outcome(4, failure="did not finish")})
    assert figures["subscribers"]["duckdb"]["failure"] == "did not finish"
    assert figures["subscribers"]["duckdb"]["ratio"] == 0.25


def test_a_subscriber_that_never_finished_has_only_its_failure():
    figures = describe(BY_NAME["W7"], {"native": outcome(1), "duckdb": outcome(failure="did not finish")})
    assert figures["subscribers"]["duckdb"] == {"failure": "did not finish"}


def test_without_native_there_is_no_ratio():
    figures = describe(BY_NAME["W7"], {"native": outcome(failure="no"), "sqlite": outcome(1)})
    assert "ratio" not in figures["subscribers"]["sqlite"]


def test_of_latency_the_ratio_is_that_of_the_medians():
    def one(*milliseconds):
        return Outcome([Sample(1, Usage(20.0), milliseconds, 0.02)])

    figures = describe(BY_NAME["W6"], {"native": one(1, 2, 3), "sqlite": one(10, 20, 90)})["subscribers"]
    assert (figures["sqlite"]["p50_ms"], figures["sqlite"]["p99_ms"], figures["sqlite"]["ratio"]) == (20, 90, 0.1)
    assert figures["sqlite"]["idle_cores"] == 0.02


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 2), (75, 3), (99, 4), (100, 4)])
def test_a_percentile_is_the_least_value_that_is_great_enough(percent, value):
    assert percentile([1, 2, 3, 4], percent) == value


def test_a_ratio_that_falls_by_more_than_a_third_is_named():
    assert fallen(results(0.4), results(0.6)) == []
    assert fallen(results(0.39), results(0.6)) == ["W1 sqlite: the ratio fell from 0.6 to 0.39"]


def test_what_does_not_finish_any_more_is_named():
    now = results(0.5)
    now["workloads"]["W1"]["subscribers"]["sqlite"] = {"failure": "did not finish within 60 s"}
    assert fallen(now, results(0.6)) == ["W1 sqlite: had a ratio of 0.6, now fails: did not finish within 60 s"]


def test_what_was_not_measured_now_has_not_fallen():
    assert fallen({"size": 1.0, "workloads": {}}, results(0.6)) == []


def test_results_of_different_sizes_are_not_compared():
    with pytest.raises(ValueError, match=r"size 0\.1 cannot be compared with those of size 1"):
        fallen(results(0.5, 0.1), results(0.5))


@pytest.mark.parametrize(("ratio", "text"), [(1.234, "1.23"), (0.1, "0.10"), (0.0641, "0.064"), (0.0021, "0.0021")])
def test_a_small_ratio_keeps_two_digits_that_count(ratio, text):
    assert short(ratio) == text


def test_growth_compares_a_larger_workload_with_itself():
    small = {"native": {"seconds": [1.0]}, "sqlite": {"seconds": [2.0, 9.0, 1.0], "python_mib": 900, "jvm_mib": 500}}
    large = {"native": {"failure": "no"}, "sqlite": {"seconds": [21.0], "python_mib": 1100, "jvm_mib": 600}}
    assert growth({"workloads": {"W1": {"subscribers": small}, "W1 x 10": {"subscribers": large}}}) == [
        "W1 sqlite: 10 times the size in 10.5 times the time, Python 1,100 MiB instead of 900, JVM 600 MiB instead of 500"
    ]
    assert growth({"workloads": {"W1": {"subscribers": small}}}) == []
