"""A finding: one thing that a check has found, with the statement that puts it right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from subscriber.errors import SubscriberError

Severity = Literal["FAIL", "WARN", "INFO"]
"""FAIL: the migration would stop, or would lose something. WARN: it may. INFO: a fact to know."""
Area = Literal["publisher", "tables", "target", "not replicated", "estimate"]

_LABELS = ("DETAIL:  ", "HINT:  ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check has found.

    Attributes:
        severity: how serious it is.
        area: where it is.
        object: the name of the setting, role, table or database.
        message: one sentence.
        reason: why it matters; None if the message says it.
        remedy: the statement that puts it right, or what else to do; None if nothing needs to be
            done.
    """

    severity: Severity
    area: Area
    object: str
    message: str
    reason: str | None = None
    remedy: str | None = None


def finding_of_error(error: SubscriberError, area: Area, name: str) -> Finding:
    """The finding for an error at which the migration would stop.

    Args:
        error: the error.
        area: where it is.
        name: the object, if the error has no relation.
    """
    return Finding(
        severity="FAIL",
        area=area,
        object=error.relation or name,
        message=" ".join(error.message.split()),  # libpq's messages have several lines
        reason=error.detail,
        remedy=error.hint,
    )


def finding_of_notice(text: str, area: Area, name: str) -> Finding:
    """The finding for a notice or warning of a command
    (:data:`subscriber.commands.notices.Notify`).

    Args:
        text: the notice, whose first line begins with its severity.
        area: where it is.
        name: the object.
    """
    severity, _, rest = text.partition(":  ")
    message, *further = rest.split("\n")
    said = {label: line.removeprefix(label) for line in further for label in _LABELS if line.startswith(label)}
    return Finding(
        severity="WARN" if severity == "WARNING" else "INFO",
        area=area,
        object=name,
        message=message,
        reason=said.get(_LABELS[0]),
        remedy=said.get(_LABELS[1]),
    )


def has_failed(findings: Sequence[Finding]) -> bool:
    """Whether one of the findings is a FAIL."""
    return any(finding.severity == "FAIL" for finding in findings)
