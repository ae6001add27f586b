"""The examples of the README of :mod:`subscriber.postgres` print what stands below them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import subscriber.postgres

README = (Path(subscriber.postgres.__file__).parent / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, re.DOTALL)


def test_the_readme_has_an_example_of_a_filter_and_one_of_a_message():
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("example", "output"), EXAMPLES)
def test_an_example_prints_what_stands_below_it(example, output, capsys):
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == output
