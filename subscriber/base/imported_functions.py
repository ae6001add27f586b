"""Functions of the user that a command line or the catalog names as ``package.module:function``."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from subscriber.base.errors import UsageError
from subscriber.base.settings import FUNCTION_MODULES, Settings


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


def raised_in(error: BaseException) -> str:
    """The place where a function of the user raised an error. The text of such an error is never
    shown: it may quote a value.
    """
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{last.filename}, line {last.lineno}"


def catalog_function(place: str, what: str, settings: Settings) -> Callable[..., Any]:
    """As :func:`import_function`, for a name that is in the catalog. UsageError (42501): whoever
    has started this process has not allowed its module.
    """
    module = place.partition(":")[0]
    if module not in settings.function_modules:
        raise UsageError(
            f'{what} "{place}" is not allowed',
            sqlstate="42501",
            detail="Who may write the catalog must not choose what is executed, so the environment names the modules.",
            hint=f"Set {FUNCTION_MODULES}={module} for each process of subscriber.",
        )
    return import_function(place, what)
