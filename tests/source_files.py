"""Python files as syntax trees, for tests that inspect the code."""

from __future__ import annotations

import ast
import gc
from pathlib import Path


def syntax_of(path: Path) -> ast.Module:
    """The syntax tree of a file.

    While CPython 3.11 builds the tree, it counts its depth in the interpreter's state. A finalizer
    that the garbage collector runs meanwhile may let another thread parse, and the count is wrong:
    ``SystemError: AST constructor recursion depth mismatch``. So nothing is collected here.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        if collecting:
            gc.enable()
