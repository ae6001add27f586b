"""The program that Spark starts in place of Python must start in some milliseconds."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from subscriber.base import fork_client


def test_it_imports_the_standard_library_only():
    """It is run without the packages of the environment (-I -S)."""
    tree = ast.parse(Path(fork_client.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
    assert "subprocess" not in imported, "it takes long to import"
