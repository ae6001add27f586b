"""From a SQLAlchemy URL to a target; a dialect's module is imported only when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.base.errors import UsageError
from subscriber.targets.target import Target


@dataclass(frozen=True, slots=True)
class Dialect:
    """A module's function that takes the URL, and the extra of pyproject.toml for the driver."""

    module: str
    function: str
    extra: str | None = None

    def open(self, url: sa.URL) -> Target:
        opener: Callable[[sa.URL], Target] = getattr(import_module(self.module), self.function)
        return opener(url)


DIALECTS: Final[dict[str, Dialect]] = {
    "sqlite": Dialect("subscriber.targets.sqlite.target", "open_sqlite"),
    "postgresql": Dialect("subscriber.targets.postgresql.target", "open_postgresql"),
    "mysql": Dialect("subscriber.targets.mariadb.target", "open_mariadb", extra="mysql"),
    "mariadb": Dialect("subscriber.targets.mariadb.target", "open_mariadb", extra="mysql"),
    "duckdb": Dialect("subscriber.targets.duckdb.target", "open_duckdb", extra="duckdb"),
}
"""The dialects by the part of the URL before ``+`` or ``:``."""

_ANY_OTHER: Final = Dialect("subscriber.targets.generic.target", "open_generic")

ENTRY_POINTS: Final = "subscriber.targets"
"""The group of entry points in which packages register other dialects: the name is the part of the
URL before ``+`` or ``:``, the object a function that takes the URL and returns the Target.
"""


def _find(backend: str) -> Dialect:
    """The dialect of ours, of a package, or of any other database."""
    known = DIALECTS.get(backend)
    if known is not None:
        return known
    registered: list[EntryPoint] = sorted(entry_points(group=ENTRY_POINTS, name=backend), key=lambda one: one.value)
    if not registered:
        return _ANY_OTHER
    if len({one.value for one in registered}) > 1:
        raise UsageError(
            f'several packages register the database "{backend}": {", ".join(one.value for one in registered)}',
            hint="Uninstall all but one of them.",
        )
    return Dialect(registered[0].module, registered[0].attr)


def open_target(url: str | sa.URL) -> Target:
    """Open the target that ``url`` names, without a connection to the database. UsageError if it is
    no URL, its dialect is unknown, its driver is not installed, or it cannot be a target; its
    message never contains a password. NotSupportedError if it asks for another driver.
    """
    parsed = _parse(url)
    dialect = _find(parsed.get_backend_name())
    try:
        return dialect.open(parsed)
    except exc.NoSuchModuleError:
        if dialect.extra is not None:
            raise _not_installed(parsed, dialect, f"{parsed.get_backend_name()}_engine") from None
        raise UsageError(
            f'unknown database "{parsed.drivername}" in the target URL',
            hint="Use a SQLAlchemy URL such as sqlite:////path/to/file.db or postgresql://user@host/database.",
        ) from None
    except ImportError as error:
        raise _not_installed(parsed, dialect, error.name or parsed.get_driver_name()) from None


def _not_installed(url: sa.URL, dialect: Dialect, module: str) -> UsageError:
    return UsageError(
        f'the driver of "{url.drivername}" is not installed (no module named "{module}")',
        hint="Install it with: pip install " + (module if dialect.extra is None else f'"subscriber[{dialect.extra}]"'),
    )


def _parse(url: str | sa.URL) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (exc.ArgumentError, ValueError):
        # SQLAlchemy's error would quote the URL, and with it a password.
        raise UsageError(
            "the target URL is not a SQLAlchemy URL",
            hint="It looks like sqlite:////path/to/file.db or postgresql://user@host/database.",
        ) from None
    if "@" in (parsed.host or ""):
        # This is the end of the password, which error messages would show as a host.
        raise UsageError(
            "it is ambiguous where the password of the target URL ends",
            hint='Write "@" as %40, "/" as %2F, ":" as %3A and "?" as %3F inside the parts of a URL.',
        )
    return parsed
