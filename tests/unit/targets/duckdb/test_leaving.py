"""The end of a program that has used DuckDB, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from subscriber.targets.duckdb.leaving import leave_quietly
sys.modules{change}
print("before", file=sys.stderr)
leave_quietly()
print("after", file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("change", "written"),
    [('["duckdb"] = sys', "before\n"), (".pop('duckdb', None)", "before\nafter\n")],
    ids=["duckdb was used", "duckdb was not used"],
)
def test_what_is_written_after_duckdb_was_used_is_discarded(change, written):
    command = [sys.executable, "-c", PROGRAM.format(change=change)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stderr == written
