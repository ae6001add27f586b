"""The module search path of the Python processes that this package starts.

They find their modules where this process finds them, and never in the current directory, where
``python -m`` looks first. Users who can write there, as to ``/tmp``, could put a file ``json.py``
there that would run with the privileges of this process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_INSTALLED: Final = ("site-packages", "dist-packages")


def search_path(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment variables that decide where a child process looks for modules.

    The child imports this copy of the package, also a checkout that is not installed. Empty entries
    of PYTHONPATH mean the current directory, and are left out.
    """
    root = Path(__file__).resolve().parents[2]
    own = [] if root.name in _INSTALLED else [str(root)]
    inherited = [place for place in environ.get("PYTHONPATH", "").split(os.pathsep) if place and place not in own]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([*own, *inherited])}
