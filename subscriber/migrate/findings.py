"""A finding: one thing that a check has found, with the statement that puts it right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from subscriber.base.errors import PublisherError, SubscriberError

Severity = Literal["FAIL", "WARN", "INFO"]
"""FAIL: the migration would stop, or would lose something. WARN: it may. INFO: a fact to know."""
Area = Literal["publisher", "tables", "target", "not replicated", "estimate"]

_LABELS = ("DETAIL:  ", "HINT:  ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence about a setting, role, table or database, why it matters, and a remedy."""

    severity: Severity
    area: Area
    object: str
    message: str
    reason: str | None = None
    remedy: str | None = None


def finding_of_error(error: SubscriberError, area: Area, name: str) -> Finding:
    """The finding for an error at which the migration would stop."""
    return Finding(
        severity="FAIL",
        area=area,
        object=error.relation or name,
        # libpq's messages have several lines.
        message=" ".join(error.message.split()) if isinstance(error, PublisherError) else error.message,
        reason=error.detail,
        remedy=error.hint,
    )


def finding_of_notice(text: str, area: Area, name: str) -> Finding:
    severity, _, rest = text.partition(":  ")
    message, *further = re.split(rf"\n(?={'|'.join(_LABELS)})", rest)  # a name may have a line break
    labelled = {label: line.removeprefix(label) for line in further for label in _LABELS if line.startswith(label)}
    return Finding(
        severity="WARN" if severity == "WARNING" else "INFO",
        area=area,
        object=name,
        message=message,
        reason=labelled.get(_LABELS[0]),
        remedy=labelled.get(_LABELS[1]),
    )


def has_failed(findings: Sequence[Finding]) -> bool:
    return any(finding.severity == "FAIL" for finding in findings)
