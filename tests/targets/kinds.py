"""The targets that the suite of this folder runs on, and an empty database of each.

``example`` is the one of docs/adding-a-target.md: its modules are the code of that page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import sqlalchemy as sa

import subscriber.targets
from subscriber.targets import Target, open_target
from subscriber.targets.dialects import DIALECTS, Dialect
from subscriber.targets.generic.facts import DatabaseFacts
from subscriber.targets.generic.target import GenericTarget, open_generic
from subscriber.testing.servers.firebird_database import new_firebird
from tests.conftest import server_or_skip
from tests.target_databases import opened

KINDS: Final = (
    "generic",
    pytest.param("firebird", marks=pytest.mark.server),
    "example",
    "sqlite",
    "turso",
    "duckdb",
    pytest.param("mariadb", marks=pytest.mark.server),
    pytest.param("seekdb", marks=pytest.mark.server),
    pytest.param("postgresql", marks=pytest.mark.server),
)

KNOWN: Final = KINDS[3:]
"""Those that can tell equal rows apart, and have a run lock."""

PROBED: Final = ("generic", "firebird")
"""Those of which only what the probes have found is known: SQLite, and Firebird."""

_FACTS: Final[dict[str, DatabaseFacts]] = {}

_PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "adding-a-target.md"
_MODULE: Final = re.compile(r"```python\n# subscriber/targets/(example/\w+\.py)\n(.*?)```", re.DOTALL)
_REGISTRATION: Final = re.compile(r"```python\n    \"example\": (Dialect\(.*\)),\n```")


@contextmanager
def documented_example(folder: Path) -> Iterator[None]:
    """Inside, the example of the page is a registered target."""
    page = _PAGE.read_text()
    (folder / "example").mkdir()
    (folder / "example" / "__init__.py").touch()
    for name, code in _MODULE.findall(page):
        (folder / name).write_text(code)
    (registration,) = _REGISTRATION.findall(page)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subscriber.targets, "__path__", [*subscriber.targets.__path__, str(folder)])
        patch.setitem(DIALECTS, "example", eval(registration, {"Dialect": Dialect}))
        yield


@contextmanager
def opened_by_facts(kind: str, folder: Path) -> Iterator[GenericTarget]:
    """An empty database of one of :data:`PROBED`; the probes run once in a process."""
    if kind == "firebird":
        url = server_or_skip(lambda: new_firebird(folder / "target.fdb"))
    else:
        url = f"sqlite:///{folder / 'target.db'}"
    with open_generic(sa.make_url(url), facts=_FACTS.get(kind)) as target:
        _FACTS[kind] = target.known_facts()
        yield target


@contextmanager
def opened_kind(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Target]:
    """An empty database of one of :data:`KINDS`."""
    if kind in PROBED:
        with opened_by_facts(kind, folder) as target:
            yield target
    elif kind == "example":
        with open_target(f"example:///{folder / 'target.db'}") as target:
            yield target
    else:
        with opened(kind, request, folder) as target:
            yield target
