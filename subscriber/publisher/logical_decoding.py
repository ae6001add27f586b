"""Whether a server can decode its WAL with pgoutput, by its version, and what puts it right.

CREATE SUBSCRIPTION and every start ask this of the publisher, and so does the check of a migration.
The way back of a cutover asks it of the target.

::

    up to 18          wal_level = logical
    19, primary       wal_level = replica is enough: the first logical slot raises effective_wal_level
    19, standby       effective_wal_level follows the primary
    since August 2026 output_plugin_libraries names pgoutput, in all versions; older minor releases
                      have no such setting, and some roles may not see it
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Final, LiteralString

from psycopg import sql

from subscriber.publisher.sql_connection import Connection, features_of
from subscriber.schema.server_features import ServerFeatures

_PLUGIN: Final = "pgoutput"
_HINT_OF_19: Final = 'Set "wal_level" >= "logical" or create at least one logical slot when "wal_level" = "replica". '
"""PostgreSQL 19's own hint."""
_SETTINGS: Final[LiteralString] = (
    "SELECT current_setting('wal_level'), current_setting('effective_wal_level', true), pg_is_in_recovery(),"
    " (SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries')"
)


@dataclass(frozen=True, slots=True)
class DecodingObstacle:
    """A setting because of which a server cannot decode its WAL.

    Attributes:
        setting: the setting.
        value: its value.
        needed: what logical decoding needs instead.
        message: the server's text when a slot is created.
        sqlstate: the SQLSTATE of that error.
        statement: the statement that puts it right, without its semicolon.
        needs_restart: whether the server must be restarted after it.
        at_primary: whether the statement is for the primary of this standby.
        advice: the server's own hint, if it has one.
    """

    setting: str
    value: str
    needed: str
    message: str
    sqlstate: str
    statement: str
    needs_restart: bool = True
    at_primary: bool = False
    advice: str = ""

    @property
    def finding(self) -> str:
        """What was found, and what is needed."""
        return f'{self.setting} is "{self.value}", and logical decoding needs {self.needed}'

    def remedy(self, server: str) -> str:
        """The statements that put it right, as a script; ``server`` says which server was asked."""
        if not self.needs_restart:
            return f"{self.statement}; SELECT pg_reload_conf();"
        return f"{self.statement}; -- and restart the {self._place(server)}"

    def hint(self, server: str) -> str:
        """What to do, in words; ``server`` says which server was asked."""
        script = f"{self.statement}; and restart it." if self.needs_restart else self.remedy(server)
        return f"{self.advice}Run at the {self._place(server)}: {script}"

    def _place(self, server: str) -> str:
        return "primary" if self.at_primary else server


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingSettings:
    """What a server's logical decoding depends on.

    Attributes:
        version: the version as libpq reports it, such as 180006.
        wal_level: the setting.
        effective_wal_level: the setting, which PostgreSQL 19 has; otherwise None.
        is_standby: whether the server is in recovery.
        output_plugin_libraries: the setting; None if the server has no such setting, or the role
            may not see it.
    """

    version: int
    wal_level: str
    effective_wal_level: str | None
    is_standby: bool
    output_plugin_libraries: str | None

    def obstacles(self) -> list[DecodingObstacle]:
        """Why the server cannot decode its WAL with pgoutput; empty if it can."""
        return [one for one in (self._level(), self._libraries()) if one is not None]

    def _level(self) -> DecodingObstacle | None:
        if not ServerFeatures(self.version).logical_decoding_on_demand:
            if self.wal_level == "logical":
                return None
            return DecodingObstacle(
                "wal_level",
                self.wal_level,
                '"logical"',
                'logical decoding requires "wal_level" >= "logical"',
                "55000",
                "ALTER SYSTEM SET wal_level = 'logical'",
            )
        if self.wal_level == "minimal":
            return DecodingObstacle(
                "wal_level",
                self.wal_level,
                '"replica" or "logical"',
                'replication slots can only be used if "wal_level" >= "replica"',
                "55000",
                "ALTER SYSTEM SET wal_level = 'replica'",
                advice=_HINT_OF_19,
            )
        if self.is_standby and self.effective_wal_level != "logical":
            return DecodingObstacle(
                "effective_wal_level",
                self.effective_wal_level or "",
                '"logical"',
                'logical decoding on standby requires "effective_wal_level" >= "logical" on the primary',
                "55000",
                "ALTER SYSTEM SET wal_level = 'logical'",
                at_primary=True,
                advice=_HINT_OF_19,
            )
        return None

    def _libraries(self) -> DecodingObstacle | None:
        if self.output_plugin_libraries is None:
            return None
        names = _listed(self.output_plugin_libraries)
        if _PLUGIN in names:
            return None
        # Each name is one value: a server that quotes the names of the list takes 'a, b' as one.
        values = ", ".join(sql.Literal(name).as_string(None) for name in (*names, _PLUGIN))
        return DecodingObstacle(
            "output_plugin_libraries",
            self.output_plugin_libraries,
            f'"{_PLUGIN}" in it',
            f'library "{_PLUGIN}" may not be used as an output plugin',
            "42501",
            f"ALTER SYSTEM SET output_plugin_libraries = {values}",
            needs_restart=False,
        )


def read_decoding_settings(connection: Connection) -> DecodingSettings:
    """What the logical decoding of a connection's server depends on.

    Raises:
        psycopg.Error: the query failed.
    """
    row = connection.execute(_SETTINGS).fetchone()
    assert row is not None
    wal_level, effective, is_standby, libraries = row
    return DecodingSettings(
        version=features_of(connection).version,
        wal_level=wal_level,
        effective_wal_level=effective,
        is_standby=is_standby,
        output_plugin_libraries=libraries,
    )


def _listed(setting: str) -> list[str]:
    """The names in a setting with a list of names, of which some may be in double quotes."""
    return [name for row in csv.reader([setting], skipinitialspace=True) for one in row if (name := one.strip())]
