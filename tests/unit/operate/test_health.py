"""The rules of health are those of `/health` and of `subscriber status --check`."""

from __future__ import annotations

import pytest

from subscriber.base.errors import UsageError
from subscriber.operate.health import HealthFacts, HealthLimits, Verdict, judge, parse_limits

FINE = HealthFacts("s", "streaming", 0.5, 0)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("lag=60s,errors=0", HealthLimits(60.0, 0)),
        ("lag=1.5min", HealthLimits(90.0, None)),
        (" errors=3 ", HealthLimits(None, 3)),
        ("lag=5", HealthLimits(5.0, None)),
        ("", HealthLimits()),
    ],
)
def test_limits_have_units(text, limits):
    assert parse_limits(text) == limits


@pytest.mark.parametrize("text", ["lag", "lag=", "lag=-1s", "lag=60x", "errors=x", "errors=-1", "size=3", "lag=1e9s"])
def test_other_limits_are_refused(text):
    with pytest.raises(UsageError):
        parse_limits(text)


@pytest.mark.parametrize(
    ("facts", "verdict", "reason"),
    [
        (FINE, Verdict.OK, "1 subscription, greatest lag 0.5 s"),
        (HealthFacts("s", "streaming", 61.0, 0), Verdict.CRITICAL, "s: the lag is 61.0 s, 60 s are allowed"),
        (HealthFacts("s", "streaming", None, 0, why="away"), Verdict.UNKNOWN, "s: its lag is not known (away)"),
        (HealthFacts("s", "retrying", 1.0, 2), Verdict.CRITICAL, "s: 2 failed attempts, 0 are allowed"),
        (HealthFacts("s", "stopped", 1.0, 0), Verdict.CRITICAL, "s is stopped"),
        (HealthFacts("s", "not running", None, 0), Verdict.CRITICAL, "s is not running"),
        (HealthFacts("s", "disabled", None, 5), Verdict.OK, "1 subscription"),
        (HealthFacts("s", "disabled", None, 0, "lost"), Verdict.CRITICAL, "s: its slot is lost"),
    ],
)
def test_each_trouble_has_its_verdict(facts, verdict, reason):
    health = judge([facts], HealthLimits(60.0, 0))
    assert (health.verdict, health.reasons) == (verdict, (reason,))


def test_without_a_limit_failed_attempts_are_a_warning():
    assert judge([HealthFacts("s", "retrying", None, 2)], HealthLimits()).verdict is Verdict.WARNING


def test_the_worst_comes_first():
    health = judge(
        [HealthFacts("a", "streaming", None, 0), HealthFacts("b", "stopped", 0.0, 0), FINE], HealthLimits(60.0, 0)
    )
    assert health.verdict is Verdict.CRITICAL
    assert [reason.partition(" ")[0] for reason in health.reasons] == ["b", "a:"]


def test_no_subscription_is_not_healthy():
    assert judge([], HealthLimits()).verdict is Verdict.UNKNOWN
