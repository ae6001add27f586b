"""The seed of tests that make random histories and values."""

from __future__ import annotations

import os
import random
from typing import Final

IN_CI: Final = os.environ.get("CI", "").lower() == "true"


def random_seed() -> int:
    """``SEED``, which repeats a failure. Without it, a landing is always tested with the same seed,
    as hypothesis takes the same examples there, and any other run with a new one.
    """
    given = os.environ.get("SEED")
    return int(given) if given else 1 if IN_CI else random.randrange(2**32)
