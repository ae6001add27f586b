"""Functions of the user, which options and commands name as ``package.module:function``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from subscriber.base.errors import UsageError


def user_function(place: str, what: str) -> Callable[..., Any]:
    """Import the function; ``what`` it is begins the message of the UsageError."""
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
