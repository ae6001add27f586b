"""The servers and the Spark session that all scenarios share. They are started at their first use.

For every PostgreSQL version there is one publisher server for each publisher node of a session
(:mod:`subscriber.testing.nodes.node` says why). One more server of the version contains the native
subscribers, the mirrors of targets, and PostgreSQL targets.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from psycopg import sql
from sqlalchemy import make_url

from subscriber.base.errors import UsageError
from subscriber.base.settings import POSTGRESQL_VERSIONS, Settings
from subscriber.spark.session import starting_spark
from subscriber.spark.spark_functions import SparkFunctions, functions_on
from subscriber.testing.nodes.emulated_publications import CARRIER
from subscriber.testing.nodes.node import PostgreSQLNode, ResolveConninfo, SessionNode, node_conninfo
from subscriber.testing.nodes.older_publisher import OlderPublisher
from subscriber.testing.nodes.target_node import TargetNode
from subscriber.testing.servers import open_servers
from subscriber.testing.servers.postgresql_server import PostgreSQL, PostgreSQLServer
from subscriber.worker import RECEIVER_MODULE

NATIVE: Final = "native"
KINDS: Final = (NATIVE, *open_servers.TARGET_KINDS, *open_servers.FURTHER_KINDS)

SETTINGS: Final[Mapping[str, str]] = {
    "wal_retrieve_retry_interval": "100ms",
    "wal_receiver_status_interval": "1s",
    "wal_writer_delay": "10ms",
}
"""These let PostgreSQL's workers finish quickly, and do not change what the workers do."""

RETRY_SECONDS: Final = 0.1
"""``wal_retrieve_retry_interval``, as above, for the workers of ``subscriber``."""

MASTER: Final = "local[2]"


Publications = Literal["server", "emulated"]


@dataclass(frozen=True, slots=True)
class Setup:
    """The subscriber, the server version and the place of the publications: a column of the report.

    ``subscriber`` is ``native``, a kind of target, or a target's URL; ``major`` is the version of
    the publishers and of native subscribers; ``version`` is the setting ``postgresql_version`` of
    the other subscribers.
    """

    subscriber: str = field(default=NATIVE, repr=False)  # a URL may hold a password
    major: int = 18
    publications: Publications = "server"
    version: int = POSTGRESQL_VERSIONS[0]

    @property
    def session_version(self) -> int:
        """The version whose output a session expects.

        What concerns the subscriber is that of ``version``, where the server is older, and so are
        emulated publications.
        """
        oldest = POSTGRESQL_VERSIONS[0]
        acts_as_newer = self.subscriber != NATIVE and self.version > max(self.major, oldest)
        return self.version if acts_as_newer else self.major

    @property
    def subscriber_name(self) -> str:
        """The subscriber as people read it: a URL without its password and its parameters."""
        if "://" not in self.subscriber:
            return self.subscriber
        return make_url(self.subscriber).set(query={}).render_as_string()

    @property
    def server_name(self) -> str:
        emulated = ", emulated publications" if self.publications == "emulated" else ""
        newer = f", as PostgreSQL {self.session_version}" if self.session_version > self.major else ""
        return f"PostgreSQL {self.major}{emulated}{newer}"

    def __str__(self) -> str:
        return f"{self.subscriber_name}, {self.server_name}"


def check_subscriber(subscriber: str, publications: Publications = "server") -> None:
    """Refuse an unknown subscriber, and emulated publications of PostgreSQL's own."""
    if subscriber == NATIVE and publications == "emulated":
        raise UsageError(
            "PostgreSQL's own subscriber cannot evaluate publications",
            hint="Use --publications emulated with a --subscriber other than native.",
        )
    if subscriber not in KINDS and "://" not in subscriber:
        raise UsageError(
            f'unknown subscriber "{subscriber}"',
            hint=f"It is one of {', '.join(KINDS)}, or the SQLAlchemy URL of a database.",
        )


class Stage:
    """The servers and the Spark session of a run of scenarios; the ``with`` block ends them."""

    def __init__(self) -> None:
        self._resources = contextlib.ExitStack()
        self._targets = contextlib.ExitStack()
        """The databases that were created for the targets of the current scenario."""
        self._versions: dict[int, _Version] = {}

    def features(self, setup: Setup) -> frozenset[str]:
        """The features that this setup has, out of those that a scenario can require."""
        found = {"two_phase"}  # every server has max_prepared_transactions
        with contextlib.suppress(UsageError):
            found |= {"psql"} if self._version(setup.major).publisher(0).psql else set()
        return frozenset(found)

    def open_nodes(self, names: Sequence[str], setup: Setup, patience: float, nodes: dict[str, SessionNode]) -> None:
        """Create a database for every node, and add each to ``nodes`` as soon as it exists."""
        version = self._version(setup.major)
        publishers = [name for name in names if is_publisher(name)]
        places = {name: version.publisher(number) for number, name in enumerate(publishers)}
        if setup.subscriber == NATIVE:
            places |= {name: version.subscriber for name in names if name not in places}
        resolve = partial(node_conninfo, servers=places, otherwise=version.publisher(0))
        for name in names:
            if name in publishers and setup.publications == "emulated" and setup.version > setup.major:
                settings = self._settings(setup)
                nodes[name] = OlderPublisher(name, places[name], resolve, patience, settings, self._folder)
            elif name in places:
                nodes[name] = PostgreSQLNode(name, places[name], resolve, patience)
            else:
                nodes[name] = self._target_node(name, setup, resolve, patience)

    def servers(self, major: int) -> list[PostgreSQL]:
        """The servers of a version that have been started so far."""
        return [one.server for one in self._version(major).started]

    def tidy(self) -> None:
        """Remove what a scenario created outside of its nodes' databases."""
        self._targets.close()
        for version in self._versions.values():
            version.tidy()

    def _target_node(self, name: str, setup: Setup, resolve: ResolveConninfo, patience: float) -> SessionNode:
        version = self._version(setup.major)
        servers = open_servers.TargetServers(lambda: version.subscriber, lambda: self._mariadb, lambda: self._seekdb)
        target = self._targets.enter_context(open_servers.fresh_target(setup.subscriber, name, self._folder, servers))
        carrier = CARRIER if setup.publications == "emulated" else None
        settings = self._settings(setup)
        return TargetNode(name, target, version.subscriber, resolve, self._functions, settings, patience, carrier)

    def _settings(self, setup: Setup) -> Settings:
        return Settings(
            str(self._folder / "journal"), wal_retrieve_retry_interval=RETRY_SECONDS, postgresql_version=setup.version
        )

    @cached_property
    def _folder(self) -> Path:
        return Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="subscriber-scenarios-")))

    @cached_property
    def _mariadb(self) -> open_servers.MariaDB:
        return self._resources.enter_context(open_servers.open_mariadb())

    @cached_property
    def _seekdb(self) -> open_servers.MariaDB:
        return self._resources.enter_context(open_servers.open_seekdb())

    @cached_property
    def _functions(self) -> SparkFunctions:
        spark = self._resources.enter_context(starting_spark(MASTER, self._folder / "spark.log", [RECEIVER_MODULE]))
        spark.session()  # if Spark cannot be started, no session is played
        return functions_on(spark)

    def _version(self, major: int) -> _Version:
        if major not in self._versions:
            self._versions[major] = _Version(major, self._resources)
        return self._versions[major]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._resources, self._targets:
            pass


def is_publisher(node: str) -> bool:
    """Whether the node is a publisher: its name contains ``_pub``."""
    return "_pub" in node


@dataclass
class _Version:
    major: int
    resources: contextlib.ExitStack
    _publishers: list[_Server] = field(default_factory=list)
    _subscriber: _Server | None = None

    def publisher(self, number: int) -> PostgreSQL:
        while len(self._publishers) <= number:
            self._publishers.append(self._open())
        return self._publishers[number].server

    @property
    def subscriber(self) -> PostgreSQL:
        if self._subscriber is None:
            self._subscriber = self._open()
        return self._subscriber.server

    def tidy(self) -> None:
        for one in self.started:
            one.tidy()

    @property
    def started(self) -> list[_Server]:
        return [*self._publishers, *([self._subscriber] if self._subscriber else [])]

    def _open(self) -> _Server:
        return _Server(self.resources.enter_context(open_servers.open_postgresql(self.major, SETTINGS)))


class _Server:
    """A server, with the names of the roles and origins that it had before the first scenario."""

    def __init__(self, server: PostgreSQL) -> None:
        self.server = server
        self._roles = self._names("SELECT rolname FROM pg_roles")
        self._origins = self._names("SELECT roname FROM pg_replication_origin")

    def tidy(self) -> None:
        for role in self._names("SELECT rolname FROM pg_roles") - self._roles:
            self.server.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)).as_string(None))
        for origin in self._names("SELECT roname FROM pg_replication_origin") - self._origins:
            self.server.execute(
                sql.SQL("SELECT pg_replication_origin_drop({})").format(sql.Literal(origin)).as_string(None)
            )
        # Only on a server that this program started: the settings of another server must stay.
        if isinstance(self.server, PostgreSQLServer) and self._names(
            "SELECT name FROM pg_file_settings WHERE sourcefile LIKE '%postgresql.auto.conf'"
        ):
            self.server.execute("ALTER SYSTEM RESET ALL")
            self.server.execute("SELECT pg_reload_conf()")

    def _names(self, query: str) -> frozenset[str]:
        return frozenset(str(name) for (name,) in self.server.execute(query))
