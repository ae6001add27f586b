"""The rules by which a run is healthy, of ``/health`` and of ``subscriber status --check``.

=============================================== ==========
stopped, not running, slot lost or unreserved   critical
lag, failed attempts and failed tables          critical above their limit
lag is not known, and has a limit               unknown
retries, and failed attempts have no limit      warning
disabled, paused                                ok: somebody wants it so
=============================================== ==========

The exit codes are those of monitoring plugins. This module imports little, for ``status``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from subscriber.base.digits import parse_int
from subscriber.base.errors import UsageError

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "": 1.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|h|d|)", re.ASCII)
_HINT: Final = 'Limits are written as "lag=60s,errors=0": a time in ms, s, min, h or d, and a number of errors.'


class Verdict(IntEnum):
    """The value is the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """The greatest lag in seconds and the greatest number of errors; None is no limit."""

    lag: float | None = None
    errors: int | None = None


@dataclass(frozen=True, slots=True)
class HealthFacts:
    """What is known of one subscription.

    Attributes:
        state: as ``subscriber status`` shows it.
        lag: in seconds; None if it is not known, ``why`` says why.
        errors: failed attempts in a row, and tables whose last copy has failed.
        slot: ``lost`` or ``unreserved`` if the slot has a problem.
    """

    name: str
    state: str
    lag: float | None
    errors: int
    slot: str | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    verdict: Verdict
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.verdict.name}: {'; '.join(self.reasons)}"


def read_limits(given: Mapping[str, str]) -> HealthLimits:
    """The limits by their names; UsageError if one is not valid."""
    unknown = sorted(given.keys() - {"lag", "errors"})
    if unknown:
        raise UsageError(f'unknown limit "{unknown[0]}"', hint=_HINT)
    lag = _DURATION.fullmatch(given.get("lag", "0").strip())
    errors = given.get("errors", "0").strip()
    if lag is None or not (errors.isascii() and errors.isdigit()):
        wrong = given["lag"] if lag is None else given["errors"]
        raise UsageError(f'invalid limit "{wrong}"', hint=_HINT)
    return HealthLimits(
        float(lag[1]) * _SECONDS[lag[2]] if "lag" in given else None, parse_int(errors) if "errors" in given else None
    )


def parse_limits(text: str) -> HealthLimits:
    """The limits of ``lag=60s,errors=0``."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise UsageError(f'invalid limits "{text}"', hint=_HINT)
    return read_limits({name.strip(): value for name, _, value in pairs})


def judge(facts: Iterable[HealthFacts], limits: HealthLimits, of: str = "subscription") -> Health:
    """The worst verdict, with a reason for each subscription that is not ok; ``of`` is what the
    facts are about.
    """
    listed = list(facts)
    if not listed:
        return Health(Verdict.UNKNOWN, (f"there is no {of}",))
    found = [problem for one in listed for problem in _problems(one, limits)]
    if not found:
        lags = [one.lag for one in listed if one.lag is not None]
        worst = f", greatest lag {max(lags):.1f} s" if lags else ""
        return Health(Verdict.OK, (f"{len(listed)} {of}{'' if len(listed) == 1 else 's'}{worst}",))
    order = (Verdict.CRITICAL, Verdict.UNKNOWN, Verdict.WARNING)
    found.sort(key=lambda problem: order.index(problem[0]))
    return Health(found[0][0], tuple(reason for _, reason in found))


def _problems(one: HealthFacts, limits: HealthLimits) -> Iterable[tuple[Verdict, str]]:
    if one.slot is not None:
        yield Verdict.CRITICAL, f"{one.name}: its slot is {one.slot}"
    if one.state == "disabled":
        return
    if one.state in ("stopped", "not running"):
        yield Verdict.CRITICAL, f"{one.name} is {one.state}"
        return
    if limits.errors is None and one.errors:
        yield Verdict.WARNING, f"{one.name}: {one.errors} failed attempts"
    elif limits.errors is not None and one.errors > limits.errors:
        yield Verdict.CRITICAL, f"{one.name}: {one.errors} failed attempts, {limits.errors} are allowed"
    if limits.lag is None:
        return
    if one.lag is None:
        yield Verdict.UNKNOWN, f"{one.name}: its lag is not known{f' ({one.why})' if one.why else ''}"
    elif one.lag > limits.lag:
        yield Verdict.CRITICAL, f"{one.name}: the lag is {one.lag:.1f} s, {limits.lag:g} s are allowed"
