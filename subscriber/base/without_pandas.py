"""Lets Arrow work without pandas in the processes of this program.

pyarrow imports pandas when it creates its first array or scalar, to recognize values of pandas'
types, of which there are none here. This takes half a second and 40 MB in every process, and
pyspark always installs pandas. pyarrow looks for it once and goes on without; an explicit
``to_pandas`` looks again.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Final

_NAME: Final = "pandas"


def use_arrow_without_pandas(*modules: str) -> None:
    """Let pyarrow, and ``modules`` that are imported now, look for pandas now, and not find it."""
    if _NAME in sys.modules:
        return
    import pyarrow as pa

    hides = _HidesPandas()
    sys.meta_path.insert(0, hides)
    try:
        pa.scalar(0)
        for module in modules:
            import_module(module)
    finally:
        sys.meta_path.remove(hides)


class _HidesPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:  # noqa: ARG002 - an interface's arguments
        if name == _NAME:
            raise ModuleNotFoundError(name=name)
