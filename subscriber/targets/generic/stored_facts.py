"""The facts in the catalog (``subscriber_target_fact``, which :mod:`subscriber.catalog.own_tables`
describes), so that a database with a catalog is probed once.
"""

from __future__ import annotations

import json
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import exc

from subscriber.targets.capabilities import Fact
from subscriber.targets.generic.facts import DatabaseFacts, by_name
from subscriber.targets.generic.probes import PROBES

_STORED: Final = sa.table(
    "subscriber_target_fact", *(sa.column(name, sa.String()) for name in ("factname", "factvalue", "found", "server"))
)


def read_facts(engine: sa.Engine, database: str) -> DatabaseFacts | None:
    """The stored facts; None if they are those of another server or of other probes, or if there
    are none.
    """
    try:
        with engine.connect() as connection:
            server = _server(connection)
            rows = connection.execute(sa.select(_STORED)).all()
    except exc.DBAPIError as error:
        if error.connection_invalidated:
            raise
        return None  # there is no catalog
    found = [Fact(row.factname, json.loads(row.factvalue), row.found) for row in rows if row.server == server]
    if {fact.name for fact in found} != {one.name for one in PROBES}:
        return None
    return DatabaseFacts(database, by_name(found))


def store_facts(engine: sa.Engine, facts: DatabaseFacts) -> None:
    """Replace the stored facts, if the database has a catalog."""
    if not sa.inspect(engine).has_table(_STORED.name):
        return
    with engine.begin() as connection:
        server = _server(connection)
        connection.execute(sa.delete(_STORED))
        for fact in facts.facts.values():
            row = {"factname": fact.name, "factvalue": json.dumps(fact.value), "found": fact.found, "server": server}
            connection.execute(sa.insert(_STORED).values(row))


def _server(connection: sa.Connection) -> str:
    """What the facts depend on: the server's version, and the driver."""
    dialect: Any = connection.dialect
    version = ".".join(map(str, dialect.server_version_info or ()))
    return f"{dialect.name} {dialect.driver} {version}".strip()[:128]
