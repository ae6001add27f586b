"""The conformance kit as tests: ``pytest --subscriber-target URL`` has an item for each check.

A check that fails is a failed test. One that is refused or skipped is a skipped test, with the
reason. The summary has the table of ``subscriber conformance``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from subscriber.base.errors import SubscriberError

_KIT: Final = pytest.StashKey[Any]()
_OUTCOMES: Final = pytest.StashKey[list[Any]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("subscriber", "conformance of a database as a target of subscriber")
    group.addoption("--subscriber-target", metavar="URL", help="Add the checks of this empty database as tests.")
    group.addoption("--subscriber-quick", action="store_true", help="Of these, only those without other processes.")


class KitCollector(pytest.Collector):
    def collect(self) -> Iterator[KitItem]:
        for check in self.config.stash[_KIT].checks:
            yield KitItem.from_parent(self, name=str(check), check=check)


class KitItem(pytest.Item):
    def __init__(self, name: str, parent: pytest.Collector, check: Any) -> None:
        super().__init__(name, parent)
        self._check = check

    def runtest(self) -> None:
        outcome = self.config.stash[_KIT].run(self._check)
        self.config.stash[_OUTCOMES].append(outcome)
        if outcome.verdict == "fails":
            pytest.fail(outcome.detail, pytrace=False)
        if outcome.verdict != "holds":
            pytest.skip(f"{outcome.verdict}: {outcome.detail}")

    def reportinfo(self) -> tuple[str, None, str]:
        return "subscriber", None, self.name


@pytest.hookimpl(tryfirst=True)  # so that -k and -m choose from these, too
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    if not session.config.option.subscriber_target:
        return
    _open_kit(session.config)
    collector = KitCollector.from_parent(session, name="conformance")
    report = session.ihook.pytest_make_collect_report(collector=collector)
    session.ihook.pytest_collectreport(report=report)
    items += report.result


def _open_kit(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        raise pytest.UsageError("--subscriber-target names one database: run its checks in one process (-n 0).")
    # Imported here, because every run of pytest loads this module.
    from subscriber.testing.conformance_kit import ConformanceKit

    try:
        kit = ConformanceKit(config.option.subscriber_target, quick=config.option.subscriber_quick)
    except SubscriberError as error:
        raise pytest.UsageError(error.report()) from None
    config.stash[_KIT], config.stash[_OUTCOMES] = kit, []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash.get(_OUTCOMES, [])
    if outcomes:
        from subscriber.testing.conformance_kit import outcome_lines

        terminalreporter.section("conformance")
        for line in outcome_lines(outcomes):
            terminalreporter.write_line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    kit = config.stash.get(_KIT, None)
    if kit is not None:
        kit.close()
