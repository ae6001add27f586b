"""The conformance kit: what of PostgreSQL's semantics holds in a target.

::

    MemoryDatabase ──▶ InProcessSubscription ──▶ the target's tables, compared after every transaction
                                  └─ in a process that is killed at a failpoint ──▶ all of a batch, or nothing
    PostgreSQL ──▶ scenarios with the target as subscriber ──▶ what psql prints   (conformance_scenarios)

Every check has one of three verdicts: it *holds*; the target *refuses* something with an error of
this program, which is no loss; or it *fails*: the target would have other rows than the publisher.
Scenarios are *skipped* where there is no PostgreSQL server.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

import sqlalchemy as sa

from subscriber.base.errors import NotSupportedError, SubscriberError, TargetRelationError, UnsupportedValue, UsageError
from subscriber.catalog.own_tables import CATALOG
from subscriber.targets import Target, open_target
from subscriber.targets.ddl import drop_table
from subscriber.testing.conformance_replication import REPLICATION_CHECKS
from subscriber.testing.conformance_scenarios import ScenarioChecks
from subscriber.testing.conformance_storage import STORAGE_CHECKS, TABLE, Check, Holding
from subscriber.testing.session.psql_table import format_rows

_CHECKS: Final = STORAGE_CHECKS + REPLICATION_CHECKS
_QUICK: Final = tuple(check for check in _CHECKS if check.area != "crashes")
_HEADINGS: Final = ("area", "check", "verdict", "")


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The verdict on one check of an area, and what is refused or has failed."""

    area: str
    check: str
    verdict: Holding
    detail: str = ""


class ConformanceKit:
    """Checks of a target, whose database must have no tables of the catalog and of the kit; those
    that the kit makes are dropped. ``quick`` leaves out what starts processes or servers.
    UsageError if the database is in use; NotSupportedError if it cannot be a target.
    """

    def __init__(self, url: str | sa.URL, *, quick: bool = False) -> None:
        with ExitStack() as resources:
            self._target = resources.enter_context(open_target(url))
            with self._target.reporting():
                there = set(sa.inspect(self._target.engine).get_table_names())
            if there & {TABLE, *CATALOG.tables}:
                raise UsageError(
                    "the target is in use",
                    detail="It has tables of subscriptions, or of an earlier check that was cut off.",
                    hint="Name an empty database.",
                )
            self.checks: tuple[Check, ...] = _QUICK if quick else _CHECKS
            if not quick:
                scenarios = resources.enter_context(
                    ScenarioChecks(self._target.url, self._target.capabilities.database)
                )
                self.checks += tuple(Check("scenarios", name, partial(scenarios.run, name)) for name in scenarios.names)
            self._resources = resources.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._resources.close()

    def run(self, check: Check) -> CheckOutcome:
        """Run one of the ``checks``, and drop what it has made."""
        try:
            verdict, detail = check.run(self._target)
        except (NotSupportedError, TargetRelationError, UnsupportedValue) as error:
            verdict, detail = "refused", error.message  # which has no values
        except SubscriberError as error:
            verdict, detail = "fails", f"{type(error).__name__}: {error.message}"
        finally:
            _clean(self._target)
        return CheckOutcome(check.area, check.name, verdict, detail)


def check_conformance(url: str | sa.URL, *, quick: bool = False) -> Iterator[CheckOutcome]:
    """Run the checks of :class:`ConformanceKit`. Each outcome is given when it is known."""
    with ConformanceKit(url, quick=quick) as kit:
        yield from map(kit.run, kit.checks)


def outcome_lines(outcomes: Sequence[CheckOutcome]) -> Iterator[str]:
    """The table of outcomes, and how many there are of each verdict."""
    yield from format_rows(_HEADINGS, [[one.area, one.check, one.verdict, one.detail] for one in outcomes]).splitlines()
    count = Counter(one.verdict for one in outcomes)
    skipped = f", {count['skipped']} skipped" if count["skipped"] else ""
    yield f"{count['holds']} hold, {count['refused']} refused, {count['fails']} failed{skipped}"


def _clean(target: Target) -> None:
    """Drop what a check has made; also what it has made only in part."""
    with suppress(SubscriberError), target.begin() as connection:
        connection.execute(drop_table(target, "public", TABLE))
    with target.reporting():
        CATALOG.drop_all(target.engine)
