"""Empty Firebird 5 databases, embedded: the wheel firebird-embedded has the engine, and Debian's
libtommath1 what it needs.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path

from subscriber.base.errors import UsageError


@cache
def _load() -> None:
    """Load the engine into this process; UsageError if it is not installed."""
    try:
        from firebird.driver import driver_config
        from firebird.embedded.provider import FirebirdProvider

        provider = FirebirdProvider()
        # For the processes that this one starts.
        os.environ["FIREBIRD"] = os.environ["LD_LIBRARY_PATH"] = str(provider.root)
        # The engine looks for these by their names, and not in its own folder.
        for library in ("libtommath.so.1", str(provider.root / "libtomcrypt.so.1"), str(provider.client_library)):
            ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
        driver_config.fb_client_library.value = str(provider.client_library)
    except (ImportError, OSError) as error:
        raise UsageError(
            f"Firebird is not installed: {error}",
            hint="Run: pip install firebird-embedded sqlalchemy-firebird && apt-get install libtommath1",
        ) from None


def new_firebird(file: Path) -> str:
    """Create an empty database, whose texts are UTF-8; returns its SQLAlchemy URL."""
    _load()
    from firebird.driver import create_database, driver_config

    connection = create_database(str(file), user="SYSDBA", charset="UTF8", overwrite=True)
    connection.execute_immediate("ALTER DATABASE SET DEFAULT CHARACTER SET UTF8")
    connection.commit()
    connection.close()
    library = driver_config.fb_client_library.value
    return f"firebird+firebird://SYSDBA@/{file}?charset=UTF8&fb_client_library={library}"
