"""The end of a program that has used DuckDB."""

from __future__ import annotations

import os
import sys


def leave_quietly() -> None:
    """For a program that ends: DuckDB's module lists, at the interpreter's very end, what daemon
    threads (Spark's) still refer to.

    That is a hundred lines for nobody, and nothing but standard error takes them away.
    """
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
