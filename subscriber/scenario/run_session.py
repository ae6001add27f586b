"""Runs scenarios. Each has separate databases, and all share servers and a Spark session.

::

    scenario ──▶ Runner ──▶ publishers[0], publishers[1], …   a PostgreSQL server for the 1st, 2nd, … publisher node
                       ──▶ subscriber server                  native subscribers, and the mirrors of targets
                       ──▶ Spark                              started for the first target

A scenario leaves nothing behind, even if it fails. Its databases are dropped together with their
slots, prepared transactions and subscriptions. What it created outside of databases (roles, ALTER
SYSTEM settings, replication origins) is removed. So scenarios can run in any order, and repeatedly.

All statements run, even if an earlier statement printed something unexpected: the first difference
is often small, and the later statements show whether it matters. Only a statement that does not
end, or a node whose connection is lost, ends the scenario early.
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
    """A statement and its result.

    Attributes:
        statement: the statement in the scenario file.
        printed: what was printed. None: the scenario ended before the statement.
        difference: the difference between what was printed and what the file expects, as lines.
            Empty if there is none.
        error: why the statement did not end. Empty if it did.
        disagreement: how the result of a publication command at a target with emulated publications
            differs from the server's result, as lines. Empty if there is no difference.
    """

    statement: Statement
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
    """The result of one scenario in one setup.

    Attributes:
        scenario: the scenario.
        setup: the subscriber and the server.
        exchanges: one for each statement of the scenario. Empty if the scenario was skipped.
        seconds: the duration, with the creation and the removal of the databases.
        skipped: why the scenario was not run. Empty if it was.
        leftover: what could not be removed afterwards. It makes the scenario fail.
    """

    scenario: Scenario
    setup: Setup
    exchanges: tuple[Exchange, ...]
    seconds: float
    skipped: str = ""
    leftover: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether the scenario passed, failed or was skipped."""
        if self.skipped:
            return "skipped"
        return "failed" if self.leftover or self.failures else "passed"

    @property
    def failures(self) -> tuple[Exchange, ...]:
        """The statements that failed, in the order of the file."""
        return tuple(exchange for exchange in self.exchanges if exchange.failed)


class Runner:
    """Runs scenarios on a stage.

    Args:
        stage: the servers and the Spark session.
        patience: the seconds that a statement may take, and also the settling before or after it.
    """

    def __init__(self, stage: Stage, patience: float = 60.0) -> None:
        self._stage = stage
        self._patience = patience

    def run(self, scenario: Scenario, setup: Setup) -> Result:
        """Run one scenario on empty databases, and remove the databases.

        A failure of a statement in the scenario is part of the result and raises no error.

        Raises:
            UsageError: the setup is not available here: there is no such server, or the subscriber
                is unknown.
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
        """Wait until all subscribing nodes have settled.

        A node may receive from another node that subscribes. So there are as many passes as the
        longest possible chain of nodes has links.
        """
        for _ in subscribing:
            for node in subscribing.values():
                node.settle(self._patience)

    def _clear(self, nodes: Mapping[str, Node]) -> str:
        """Close the nodes, subscribers first because they hold the publishers' slots, and tidy the
        stage.

        Returns:
            The errors, as lines. Empty if there were none.
        """
        problems = []
        steps: list[Callable[[], None]] = [node.close for node in reversed(list(nodes.values()))]
        for step in [*steps, self._stage.tidy]:
            try:
                step()
            except (SubscriberError, psycopg.Error) as error:
                problems.append(error.report() if isinstance(error, SubscriberError) else str(error))
        return "\n".join(problems)
