"""Names of a package whose modules are imported when a name is first used (PEP 562). A command such
as ``subscriber status`` needs neither Arrow, nor Spark, nor the driver of a database::

    if TYPE_CHECKING:
        from subscriber.spark.source import PgoutputSource
    else:
        __getattr__ = lazy_names(__name__, {"spark.source": ("PgoutputSource",)})

*Rejected:* ``importlib.util.LazyLoader``, because ``pyarrow.compute`` still imports its parent, and
modules that are not loaded appear in ``sys.modules``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package that exports these names of its modules.

    No name may be a module's: its import sets that attribute to the module.
    """
    modules = {name: f"{package}.{module}" for module, exported in names.items() for name in exported}

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)  # the next use does not come here
        return value

    return load
