"""The documents have the committed results."""

from __future__ import annotations

import json

import pytest

from benchmarks.page import RESULTS, between, circumstances, documents, rates, ratios, usage

FIGURES = {
    "workloads": {
        "W1": {
            "what": "many rows",
            "subscribers": {
                "native": {"per_second": 1000.0, "cpu_seconds": {"walsender": 1.0}},
                "sqlite": {
                    "per_second": 500.0,
                    "ratio": 0.5,
                    "python_mib": 1234,
                    "jvm_mib": 500,
                    "cpu_seconds": {"driver": 2.0, "walsender": 1.0},
                },
                "duckdb": {"failure": "did not finish within 300 s"},
            },
        },
        "W6": {"what": "single rows", "subscribers": {"native": {"p50_ms": 1.2, "p99_ms": 12.0}}},
    }
}

EVERYTHING = {
    **FIGURES,
    "machine": {"processor": "a processor", "cores": 2, "memory_gib": 23.5},
    "versions": {"postgresql": "postgres (PostgreSQL) 18.4", "pyspark": "4.3.0", "python": "3.11.7"},
    "commit": "0123456789ab",
    "date": "2026-11-23",
    "runs": 3,
    "size": 0.1,
}


def test_the_circumstances_say_when_the_workloads_were_smaller():
    assert circumstances(EVERYTHING) == (
        "Measured at commit 0123456789ab on 2026-11-23: a processor, 2 cores, 23.5 GiB, PostgreSQL 18.4, Spark 4.3.0,"
        " Python 3.11.7; medians of 3. The workloads had 0.1 of their full size."
    )
    assert circumstances({**EVERYTHING, "size": 1.0}).endswith("; medians of 3.")


@pytest.mark.skipif(not RESULTS.exists(), reason="make bench writes the results")
def test_the_documents_have_the_committed_results():
    for path, text in documents(json.loads(RESULTS.read_text())).items():
        assert path.read_text() == text, f"{path}: run python -m benchmarks.page"


def test_every_document_has_a_place_for_results():
    after = documents(EVERYTHING)
    assert sorted(path.name for path in after) == ["README.md", "performance.md", "ratios-dark.svg", "ratios-light.svg"]
    for path, text in after.items():
        assert "many rows" in text, path


def test_rates_have_the_ratio_in_brackets():
    assert rates(FIGURES).splitlines() == [
        "|  | Workload | native | sqlite | duckdb |",
        "| --- | --- | --- | --- | --- |",
        "| W1 | many rows | 1,000/s | 500/s (0.50) | did not finish within 300 s |",
        "| W6 | single rows | 1.2 and 12 ms |  |  |",
    ]


def test_ratios_leave_native_out():
    assert ratios(FIGURES).splitlines()[2:] == [
        "| W1 | many rows | 0.50 | did not finish within 300 s |",
        "| W6 | single rows |  |  |",
    ]


def test_usage_has_a_line_for_what_was_measured():
    assert usage(FIGURES).splitlines()[2:] == [
        "| W1 | native |  |  | 1.0 |  |  |  |  |  |",
        "| W1 | sqlite | 1,234 | 500 | 1.0 |  | 2.0 |  |  |  |",
    ]


def test_only_the_marked_part_of_a_document_changes():
    text = "a\n<!-- results: begin (made) -->\nold\n<!-- results: end -->\nb\n"
    after = "a\n<!-- results: begin (made) -->\n\nnew\n\n<!-- results: end -->\nb\n"
    assert between(text, "results", "new") == after
    assert between(after, "results", "new") == after


def test_a_document_without_a_place_is_an_error():
    with pytest.raises(ValueError, match="no place for results"):
        between("text", "results", "new")
