"""Names of a package whose modules are imported when a name is first used.

A command such as ``subscriber status`` needs a few modules only. A package that exports the names
of many modules would import them all, and with them Arrow, Spark or the driver of a database. Such
a package has this function as its ``__getattr__`` (PEP 562), and imports the names for type
checkers alone::

    if TYPE_CHECKING:
        from subscriber.types.oids import type_name
    else:
        __getattr__ = lazy_names(__name__, {"oids": ("type_name",)})

*Rejected:* imports inside of functions. Each function would have to know what is slow to import.
And ``importlib.util.LazyLoader``: a submodule such as ``pyarrow.compute`` still imports its parent,
and modules that are not loaded appear in ``sys.modules``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package.

    Args:
        package: the name of the package.
        names: the exported names of each module of the package; the name of a module is relative
            to the package. No name may also be the name of a module, because Python sets the
            attribute of that name to the module when the module is imported.
    """
    modules = {name: f"{package}.{module}" for module, exported in names.items() for name in exported}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    return load
