"""scenario.template: what one starts from is a scenario already."""

from __future__ import annotations

import pytest

from subscriber.testing.library import scenario_template
from subscriber.testing.session.session_file import Requires, parse_scenario


def test_the_template_parses_and_requires_nothing():
    scenario = parse_scenario(scenario_template("110_filter_on_dates"), "110_filter_on_dates")
    assert scenario.requires == Requires()
    assert scenario.nodes == ("test_pub", "test_sub")
    assert all(statement.expected for statement in scenario.statements)


@pytest.mark.parametrize(
    ("name", "title"), [("110_filter_on_dates", "Filter on dates"), ("a-b", "A b"), ("110", "110"), ("x{y}", "X{y}")]
)
def test_the_words_of_the_name_become_the_title(name, title):
    assert parse_scenario(scenario_template(name), name).title == title
