"""The documents have the committed results."""

from __future__ import annotations

import json

import pytest

from benchmarks.page import RESULTS, between, documents, rates, ratios, usage

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


def test_the_documents_have_the_committed_results():
    for path, text in documents(json.loads(RESULTS.read_text())).items():
        assert path.read_text() == text, f"{path}: run python -m benchmarks.page"


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
