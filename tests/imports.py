"""What a new Python process imports."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

LIBRARIES: Final = {
    "click", "duckdb", "numpy", "pandas", "prompt_toolkit", "psycopg", "pyarrow", "pymysql", "pyspark", "rich",
    "sqlalchemy", "sqlglot",
}  # fmt: skip
"""The libraries that pyproject.toml names, and the drivers of targets."""


def imported_by(code: str) -> set[str]:
    """The modules that a new Python process has imported after running the code."""
    code = f"import sys\n{code}\nprint()\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.splitlines()[-1].split())


def imported_by_command(*arguments: str) -> tuple[set[str], set[str]]:
    """The libraries that a command line has imported, and the modules of the project."""
    code = f"from subscriber.cli import main\nsys.argv[1:] = {arguments!r}\ntry: main()\nexcept SystemExit: pass"
    found = imported_by(code)
    libraries = {name.partition(".")[0] for name in found} & LIBRARIES
    return libraries, {name for name in found if name.partition(".")[0] == "subscriber"}
