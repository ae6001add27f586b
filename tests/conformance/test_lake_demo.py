"""``subscriber spark demo``, to its end."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from subscriber.cli.spark import command

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow, pytest.mark.long]


def test_the_demo_ends_with_equal_tables(tmp_path):
    answer = CliRunner().invoke(command, ["demo", "--seconds", "1", "--folder", str(tmp_path)])
    assert answer.exit_code == 0, answer.output
    assert len(re.findall(r" equal$", answer.output, re.MULTILINE)) == 2
    assert (tmp_path / "lake" / "orders" / "_delta_log").is_dir()
