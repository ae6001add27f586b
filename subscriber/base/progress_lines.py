"""Telling how far an operation has come that reads or builds many tables.

The operation tells each table, and whoever shows it decides how often. Outside :func:`shown_by`,
nothing is shown.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator

Show = Callable[[str, int, int], None]
"""Is told what is done, how much of it, and of how much; 0 if that is not known."""

_show: contextvars.ContextVar[Show | None] = contextvars.ContextVar("progress", default=None)


def progress(what: str, done: int = 0, total: int = 0) -> None:
    """Tell how far the operation has come. ``what`` is a participle; ``total`` 0 is unknown."""
    show = _show.get()
    if show is not None:
        show(what, done, total)


@contextlib.contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Inside the block, ``show`` is told what this thread does."""
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)
