"""The end of a program that has used DuckDB."""

from __future__ import annotations

import os
import sys


def leave_quietly() -> None:
    """Discard what the interpreter writes to standard error from now on, if DuckDB was used.

    Call this at the end of a program. When the interpreter ends, DuckDB's module prints a list of
    objects that daemon threads (of Spark) still refer to. The list has about a hundred lines that
    are not useful, and only redirecting standard error suppresses it.
    """
    if "duckdb" in sys.modules:
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
