"""The table of what grows with the number of tables."""

from __future__ import annotations

import pytest

from benchmarks.process_watch import Usage
from benchmarks.tables import STEPS, growth_table, marginal_costs


def used(seconds, **parts):
    return {step: Usage(seconds, parts) for step in STEPS}


def test_one_more_table_costs_the_difference_between_two_numbers_of_tables():
    assert marginal_costs({10: 1.0, 100: 1.9, 1000: 19.9}) == pytest.approx([0.01, 0.02])


def test_the_last_column_says_how_many_times_as_much_a_table_costs_among_more_tables():
    found = {
        "sqlite": {10: used(2.0, driver=0.5, publisher=0.5), 100: used(3.0, driver=1.9), 1000: used(9, driver=19.9)}
    }
    lines = growth_table(found).splitlines()
    assert lines[0] == "| Target | Step | 10 | 100 | 1,000 | ms a table |"
    assert lines[2] == "| sqlite | check | 1.0 (2.0) | 1.9 (3.0) | 19.9 (9.0) | 20.0 (2.0) |"
    assert lines[-1].startswith("| sqlite | idle |")
    assert lines[-1].endswith("|  |")
