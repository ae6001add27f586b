"""Running scenarios: each in databases of its own, on servers and a Spark session that all of them
share.

::

    scenario ──▶ Runner ──▶ publishers[0], publishers[1], …   a PostgreSQL server for the 1st, 2nd, … publisher node
                       ──▶ subscriber server                  native subscribers, and the mirrors of ours
                       ──▶ Spark                              started for the first subscriber of ours

A scenario leaves nothing behind, whatever happened in it: its databases are dropped with their
slots, prepared transactions and subscriptions, and what it made beside databases (roles, ALTER
SYSTEM, replication origins) is undone. So scenarios can run in any order, and again.

Every statement runs, also after one that printed something else than expected: the first difference
is often a small one, and the rest tells whether it matters. Only a statement that does not end, or
a node that is lost, ends the scenario.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

import psycopg

from subscriber.errors import SubscriberError
from subscriber.scenario.nodes.emulated_publications import Emulation
from subscriber.scenario.nodes.node import Node
from subscriber.scenario.session.effects import Effect, effect_of
from subscriber.scenario.session.expect import compare_output
from subscriber.scenario.session.session_file import Scenario, Statement
from subscriber.scenario.stage import Setup, Stage

Outcome = Literal["passed", "failed", "skipped"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One statement and what was printed.

    Attributes:
        statement: from the file.
        printed: what was printed, or None when the scenario ended before it.
        difference: how that differs from what the file expects, as lines; empty where it does not.
        error: why it did not end.
        disagreement: how a target with publications of its own has taken a publication's command
            otherwise than the server, as lines; empty where none has.
    """

    statement: Statement
    printed: str | None = None
    difference: str = ""
    error: str = ""
    disagreement: str = ""

    @property
    def failed(self) -> bool:
        """Whether it is a reason for the scenario to fail."""
        return bool(self.difference or self.error or self.disagreement)


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one scenario in one setup.

    Attributes:
        scenario: what was run.
        setup: with which subscriber and server.
        exchanges: one for every statement of the scenario; empty when it was skipped.
        seconds: how long it took, setting up and clearing away included.
        skipped: why it was not run, where it was not.
        leftover: what could not be cleared away, which is a failure too.
    """

    scenario: Scenario
    setup: Setup
    exchanges: tuple[Exchange, ...]
    seconds: float
    skipped: str = ""
    leftover: str = ""

    @property
    def outcome(self) -> Outcome:
        """In one word."""
        if self.skipped:
            return "skipped"
        return "failed" if self.leftover or self.failures else "passed"

    @property
    def failures(self) -> tuple[Exchange, ...]:
        """The statements that failed, in the file's order."""
        return tuple(exchange for exchange in self.exchanges if exchange.failed)


class Runner:
    """Runs scenarios on a stage.

    Args:
        stage: the servers.
        patience: seconds that a statement, or settling before or after it, may take.
    """

    def __init__(self, stage: Stage, patience: float = 60.0) -> None:
        self._stage = stage
        self._patience = patience

    def run(self, scenario: Scenario, setup: Setup) -> Result:
        """Run one scenario from empty databases and clear away; never raises for what the scenario
        does.

        Raises:
            UsageError: the setup cannot be had here: no such server, an unknown subscriber.
        """
        reason = scenario.requires.missing(setup.major, self._stage.features(setup))
        if reason is not None:
            return Result(scenario, setup, (), 0.0, skipped=reason)
        started = time.monotonic()
        nodes: dict[str, Node] = {}
        try:
            self._stage.open_nodes(scenario.nodes, setup, self._patience, nodes)
            emulation = Emulation(nodes, self._patience) if setup.publications == "emulated" else None
            exchanges = self._play(scenario, nodes, emulation)
        finally:
            leftover = self._clear(nodes)
        return Result(scenario, setup, exchanges, time.monotonic() - started, leftover=leftover)

    def _play(self, scenario: Scenario, nodes: Mapping[str, Node], emulation: Emulation | None) -> tuple[Exchange, ...]:
        exchanges = []
        subscribing: dict[str, Node] = {}
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
        statement: Statement,
        nodes: Mapping[str, Node],
        subscribing: dict[str, Node],
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
                told = emulation.run(node, statement.text, statement.session, partial(self._settle, subscribing))
                printed, disagreement = told.printed, told.disagreement
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

    def _settle(self, subscribing: Mapping[str, Node]) -> None:
        """What a node receives may come from another that subscribes: as many rounds as the longest
        chain has links.
        """
        for _ in subscribing:
            for node in subscribing.values():
                node.settle(self._patience)

    def _clear(self, nodes: Mapping[str, Node]) -> str:
        """Subscribers first: they hold the publishers' slots."""
        problems = []
        steps: list[Callable[[], None]] = [node.close for node in reversed(list(nodes.values()))]
        for step in [*steps, self._stage.tidy]:
            try:
                step()
            except (SubscriberError, psycopg.Error) as error:
                problems.append(error.report() if isinstance(error, SubscriberError) else str(error))
        return "\n".join(problems)
