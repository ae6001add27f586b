"""A target of which only SQLAlchemy's dialect is known, until the probes have found the facts.

The probes run before the first use of the database in a process, unless the catalog has their
facts. Names are always quoted, so that reserved words and the case of names do not matter. In a
database that stores names without quotes in upper case, they are quoted as SQLAlchemy does it:
``users`` is the table USERS there, and a name in upper case is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from typing_extensions import override

from subscriber.targets.base.target import base_roles, quote_all_names
from subscriber.targets.base.transactions import Transactions
from subscriber.targets.capabilities import Capabilities, FactValue, TargetFacts, read_version
from subscriber.targets.generic.errors import GenericErrors
from subscriber.targets.generic.facts import DatabaseFacts, folds_names
from subscriber.targets.generic.probes import probe
from subscriber.targets.generic.stored_facts import read_facts, store_facts
from subscriber.targets.statements import ALTER_WORDS, set_alter_words
from subscriber.targets.target import TableRoles, Target

logger = logging.getLogger(__name__)


def open_generic(
    url: sa.URL,
    *,
    overrides: Mapping[str, FactValue] | None = None,
    roles: Mapping[str, Any] | None = None,
    facts: DatabaseFacts | None = None,
) -> GenericTarget:
    """Open a database by its dialect. A package that registers one (docs/adding-a-target.md) may
    give facts that the probes cannot find in ``overrides``, and roles of its own by their names, as
    functions of engine and errors. With ``facts``, those of such a database, nothing is probed.
    """
    engine = _engine(url)
    logger.warning("%s is not a tested target: what it can do is found by probes", url.get_backend_name())
    return GenericTarget(url, engine, overrides or {}, roles or {}, facts)


class GenericTarget(Target):
    """``engine`` and ``capabilities`` exist when the facts are known: the first use of one of them,
    or the first transaction, runs the probes. NotSupportedError if a fact forbids exactness.
    """

    def __init__(
        self,
        url: sa.URL,
        engine: sa.Engine,
        overrides: Mapping[str, FactValue],
        roles: Mapping[str, Callable[[sa.Engine, GenericErrors], Any]],
        facts: DatabaseFacts | None,
    ) -> None:
        database = url.get_backend_name()
        errors = GenericErrors(database)
        super().__init__(
            url=url,
            engine=engine,
            capabilities=Capabilities(database=database),
            errors=errors,
            transactions=roles.get("transactions", Transactions)(engine, errors),
            open_table_roles=partial(_table_roles, engine, errors, self.known_facts, roles),
            read_facts=self._read_facts,
        )
        del self.engine, self.capabilities  # so that __getattr__ is asked for them
        self._opened = engine
        self._overrides = overrides
        self._lock = threading.Lock()
        self._facts = None if facts is None else self._learned(facts)

    def known_facts(self) -> DatabaseFacts:
        with self._lock:
            if self._facts is None:
                self._facts = self._find()
        return self._facts

    def _find(self) -> DatabaseFacts:
        apart = _engine(self.url)  # with connections of its own: no transaction is in progress there
        try:
            with self.errors.reporting():
                found = read_facts(apart, self.url.get_backend_name())
                if found is None:
                    found = probe(apart, self.url.get_backend_name())
                    store_facts(apart, found)
        finally:
            apart.dispose()
        return self._learned(found.with_overrides(self._overrides))

    def _learned(self, facts: DatabaseFacts) -> DatabaseFacts:
        """The facts, which statements and errors now obey."""
        assert isinstance(self.errors, GenericErrors)
        self.errors.learn(facts)
        for words in ALTER_WORDS:
            if words.add == facts["alter_table"]:
                set_alter_words(self._opened.dialect, words)
        return facts

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in ("engine", "capabilities"):
                return super().__getattr__(name)
            refusal = self.known_facts().refusal()
            if refusal is not None:
                raise refusal
            self.capabilities, self.engine = self.known_facts().capabilities(), self._opened
            return vars(self)[name]

    @override
    def begin(self) -> AbstractContextManager[sa.Connection]:
        _ = self.engine  # the facts
        return super().begin()

    @override
    def close(self) -> None:
        self._opened.dispose()

    def _read_facts(self, connection: sa.Connection) -> TargetFacts:
        return TargetFacts(version=read_version(connection).version, facts=tuple(self.known_facts().facts.values()))


def _engine(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, hide_parameters=True)
    if not folds_names(engine.dialect):
        quote_all_names(engine.dialect)
    return engine


def _table_roles(
    engine: sa.Engine,
    errors: GenericErrors,
    facts: Callable[[], DatabaseFacts],
    roles: Mapping[str, Callable[[sa.Engine, GenericErrors], Any]],
) -> TableRoles:
    from subscriber.targets.generic.ddl import GenericDDL
    from subscriber.targets.generic.matching import GenericMatching, GenericShapes
    from subscriber.targets.generic.values import GenericValues

    given: dict[str, Any] = {"matching": GenericMatching(facts)}
    given |= {name: role(engine, errors) for name, role in roles.items() if name != "transactions"}
    new_tables = given.pop("ddl", None) or GenericDDL(engine, facts)
    given.setdefault("shapes", GenericShapes(errors, new_tables.qualified, facts))
    return base_roles(
        engine, errors, given.pop("values", None) or GenericValues(engine, facts), ddl=new_tables, **given
    )
