"""Where the Python processes that we start find their modules: where we do, and never in the
current directory.

``python -m`` looks in the current directory first. In one that others can write, such as ``/tmp``,
a file ``json.py`` would be run as whoever runs us; and files that our processes unpickle would be
read by it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_INSTALLED: Final = ("site-packages", "dist-packages")


def search_path(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a child that decide where it looks for modules.

    The package that it imports is this one, also when that is a checkout which is not installed.

    Args:
        environ: what the child would inherit. Empty entries of its PYTHONPATH, which are the
            current directory, are left out.
    """
    root = Path(__file__).resolve().parents[1]
    own = [] if root.name in _INSTALLED else [str(root)]
    inherited = [place for place in environ.get("PYTHONPATH", "").split(os.pathsep) if place and place not in own]
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join([*own, *inherited])}
