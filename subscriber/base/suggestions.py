"""Suggestions of like names, as PostgreSQL: ``Perhaps you meant the option "copy_data".``"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

_LIKENESS: Final = 0.7
"""How like two names must be, from 0 to 1: one wrong or missing letter in four is still like."""


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like ``name``, whatever their cases are; None if none is like it."""
    by_case = {one.casefold(): one for one in names}
    found = get_close_matches(name.casefold(), by_case, n=1, cutoff=_LIKENESS)
    return by_case[found[0]] if found else None


def perhaps(kind: str, name: str, names: Iterable[str]) -> str | None:
    """The hint that names the closest of ``names``; None if none is like ``name``.

    >>> perhaps("option", "copy_dat", ["copy_data", "create_slot"])
    'Perhaps you meant the option "copy_data".'
    """
    found = closest(name, names)
    return None if found is None else f'Perhaps you meant the {kind} "{found}".'
