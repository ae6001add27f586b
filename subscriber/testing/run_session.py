"""Runs scenarios. Each has separate databases, and all share servers and a Spark session.

::

    scenario ──▶ Runner ──▶ publishers[0], publishers[1], …   a PostgreSQL server for the 1st, 2nd, … publisher node
                       ──▶ subscriber server                  native subscribers, and the mirrors of targets
                       ──▶ Spark                              started for the first target

A scenario leaves nothing behind, even if it fails: its databases are dropped with their slots,
prepared transactions and subscriptions, and so is what it created outside of them (roles, ALTER
SYSTEM settings, replication origins). So scenarios can run in any order, and repeatedly.

All statements run, even if an earlier one printed something unexpected: the first difference is
often small, and the later statements show whether it matters. Only a statement that does not end,
or a node whose connection is lost, ends the scenario early.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import psycopg

from subscriber.base.errors import SubscriberError
from subscriber.testing.nodes.emulated_publications import Emulation
from subscriber.testing.nodes.node import SessionNode
from subscriber.testing.session.expect import compare_output
from subscriber.testing.session.psql_input import Effect, effect_of
from subscriber.testing.session.session_file import Scenario, SessionStatement
from subscriber.testing.stage import Setup, Stage

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """``printed`` is None if the scenario ended before. ``difference`` has the lines that differ
    from the file, ``disagreement`` those in which an emulated publication command differs from the
    server. ``error`` is why the statement did not end.
    """

    statement: SessionStatement
    printed: str | None = None
    difference: str = ""
    error: str = ""
    disagreement: str = ""

    @property
    def failed(self) -> bool:
        """Whether this statement makes the scenario fail."""
        return bool(self.difference or self.error or self.disagreement)


@dataclass(frozen=True, slots=True)
class Result:
    """The result in one setup; ``seconds`` include creating and removing databases. ``skipped`` is
    why it was not run; ``leftover`` could not be removed, and makes it fail.
    """

    scenario: Scenario
    setup: Setup
    exchanges: tuple[Exchange, ...]
    seconds: float
    skipped: str = ""
    leftover: str = ""

    @property
    def outcome(self) -> Outcome:
        if self.skipped:
            return "skipped"
        return "failed" if self.leftover or self.failures else "passed"

    @property
    def failures(self) -> tuple[Exchange, ...]:
        """The statements that failed, in the order of the file."""
        return tuple(exchange for exchange in self.exchanges if exchange.failed)


class Runner:
    """Runs scenarios on a stage; a statement and a settling may each take ``patience`` seconds."""

    def __init__(self, stage: Stage, patience: float = 60.0) -> None:
        self._stage = stage
        self._patience = patience

    def run(self, scenario: Scenario, setup: Setup) -> Result:
        """Run one scenario on empty databases, and remove the databases.

        A failing statement is part of the result. UsageError: the setup is not available here.
        """
        reason = scenario.requires.missing(setup.session_version, self._stage.features(setup))
        if reason is not None:
            return Result(scenario, setup, (), 0.0, skipped=reason)
        started = time.monotonic()
        nodes: dict[str, SessionNode] = {}
        try:
            self._stage.open_nodes(scenario.nodes, setup, self._patience, nodes)
            emulation = Emulation(nodes, self._patience) if setup.publications == "emulated" else None
            exchanges = self._play(scenario, nodes, emulation)
        finally:
            leftover = self._clear(nodes)
        return Result(scenario, setup, exchanges, time.monotonic() - started, leftover=leftover)

    def _play(
        self, scenario: Scenario, nodes: Mapping[str, SessionNode], emulation: Emulation | None
    ) -> tuple[Exchange, ...]:
        exchanges = []
        subscribing: dict[str, SessionNode] = {}
        statements = iter(scenario.statements)
        for statement in statements:
            exchange = self._exchange(statement, nodes, subscribing, emulation)
            exchanges.append(exchange)
            if exchange.error:
                break
        exchanges += map(Exchange, statements)
        return tuple(exchanges)

    def _exchange(
        self,
        statement: SessionStatement,
        nodes: Mapping[str, SessionNode],
        subscribing: dict[str, SessionNode],
        emulation: Emulation | None,
    ) -> Exchange:
        node = nodes[statement.node]
        effect = effect_of(statement.text)
        printed, disagreement = None, ""
        try:
            if Effect.ROWS in effect and statement.node in subscribing and not node.in_transaction(statement.session):
                self._settle(subscribing)
            if emulation is None:
                printed = node.run(statement.text, statement.session)
            else:
                answer = emulation.run(node, statement.text, statement.session, partial(self._settle, subscribing))
                printed, disagreement = answer.printed, answer.disagreement
            if Effect.SUBSCRIPTION in effect and not node.in_transaction(statement.session):
                subscribing[statement.node] = node
                node.settle(self._patience)
        except SubscriberError as error:
            return Exchange(statement, printed, error=error.report())
        except psycopg.Error as error:
            return Exchange(statement, printed, error=f'node "{node.name}" is lost: {error}')
        mismatch = compare_output(statement.text, statement.expected, printed)
        difference = "" if mismatch is None else str(mismatch)
        return Exchange(statement, printed, difference, disagreement=disagreement)

    def _settle(self, subscribing: Mapping[str, SessionNode]) -> None:
        """Wait until all nodes have settled, once for each link of the longest possible chain."""
        for _ in subscribing:
            for node in subscribing.values():
                node.settle(self._patience)

    def _clear(self, nodes: Mapping[str, SessionNode]) -> str:
        """Close the nodes, subscribers first because they hold slots; the errors, as lines."""
        problems = []
        steps: list[Callable[[], None]] = [node.close for node in reversed(list(nodes.values()))]
        for step in [*steps, self._stage.tidy]:
            try:
                step()
            except (SubscriberError, psycopg.Error) as error:
                problems.append(error.report() if isinstance(error, SubscriberError) else str(error))
        return "\n".join(problems)
