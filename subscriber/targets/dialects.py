"""From a SQLAlchemy URL to a target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.errors import UsageError
from subscriber.targets.duckdb.target import leave_quietly, open_duckdb
from subscriber.targets.generic.target import open_generic
from subscriber.targets.mariadb.target import open_mariadb
from subscriber.targets.postgresql.target import open_postgresql
from subscriber.targets.sqlite.target import open_sqlite
from subscriber.targets.target import Target

__all__ = ["OPENERS", "leave_quietly", "open_target"]

OPENERS: Final[dict[str, Callable[[sa.URL], Target]]] = {
    "sqlite": open_sqlite,
    "postgresql": open_postgresql,
    "mysql": open_mariadb,
    "mariadb": open_mariadb,
    "duckdb": open_duckdb,
}
"""By the dialect's name, the part of the URL before ``+`` or ``:``; every other dialect is opened generically."""

_EXTRAS: Final = {"duckdb": "duckdb", "mysql": "mysql", "mariadb": "mysql"}
"""The extra of pyproject.toml that has a dialect's driver."""


def open_target(url: str | sa.URL) -> Target:
    """Open the target that ``url`` names; no connection is made yet.

    Raises:
        UsageError: the URL does not parse, its dialect is unknown, its driver is not installed, or it
            names something that cannot be a target. The message never repeats a password.
    """
    parsed = _parse(url)
    dialect = parsed.get_backend_name()
    try:
        return OPENERS.get(dialect, open_generic)(parsed)
    except exc.NoSuchModuleError:
        if dialect in _EXTRAS:
            raise _not_installed(parsed, f"{dialect}_engine") from None
        raise UsageError(
            f'unknown database "{parsed.drivername}" in the target URL',
            hint="Use a SQLAlchemy URL such as sqlite:////path/to/file.db or postgresql://user@host/database.",
        ) from None
    except ImportError as error:
        raise _not_installed(parsed, error.name or parsed.get_driver_name()) from None


def _not_installed(url: sa.URL, module: str) -> UsageError:
    extra = _EXTRAS.get(url.get_backend_name())
    return UsageError(
        f'the driver of "{url.drivername}" is not installed (no module named "{module}")',
        hint="Install it with: pip install " + (module if extra is None else f'"subscriber[{extra}]"'),
    )


def _parse(url: str | sa.URL) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # The error would quote the URL, and with it a password.
        raise UsageError(
            "the target URL is not a SQLAlchemy URL",
            hint="It looks like sqlite:////path/to/file.db or postgresql://user@host/database.",
        ) from None
    if "@" in (parsed.host or ""):
        # The end of the password, which errors would show as a host.
        raise UsageError(
            "it is ambiguous where the password of the target URL ends",
            hint='Write "@" as %40, "/" as %2F, ":" as %3A and "?" as %3F inside the parts of a URL.',
        )
    return parsed
