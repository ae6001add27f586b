"""Functions of the user that a command or an option names as ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from subscriber.base.errors import UsageError


def import_function(place: str, what: str) -> Callable[..., Any]:
    """The function with that name; ``what`` it is for is part of the error's message.

    >>> import_function("os.path:basename", "example")("a/b")
    'b'
    """
    module, _, path = place.partition(":")
    try:
        found: Any = attrgetter(path)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f'{what} "{place}" cannot be imported: {error}',
            hint="Write package.module:function, of a module on Python's path (PYTHONPATH).",
        ) from None
    if not callable(found):
        raise UsageError(f'{what} "{place}" is not a function')
    function: Callable[..., Any] = found
    return function
