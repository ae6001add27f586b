"""Frames as the carrier has sent them → frames as the emulated publications publish them, on the
executors, after decoding.

Of the controls, T names only relations that publish truncate, under their published names; without
any there is no message. The others stay, also where no change is left between them. Positions do
not change, so the order does not change either (commit_order).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN, format_lsn
from subscriber.postgres.protocol.changes import ChangeGroup, Control, Controls, Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.protocol.messages import Truncate
from subscriber.postgres.publication.publishing import Compiled
from subscriber.postgres.publication.transform import transform

_TRUNCATE: Final = ord("T")

Positions = npt.NDArray[np.int64]


def publish(frame: Frame, programs: Compiled, lsns: Positions) -> Iterator[Frame]:
    """What is published of a frame; ``lsns`` has the WAL position of each change.

    If a change cannot be published, the changes before it are returned first, and then the error is
    raised. The earlier transactions are thereby applied, as if the server had sent them before its
    error (rule C35).

    Raises:
        PublisherTablesOutdated: the frame has a table that differs from the stored tables of the
            publisher.
        SubscriberError: a change cannot be published exactly (relation, LSN).
    """
    made, failures = _attempt(frame, programs, lsns)
    if not failures:
        yield made
        return
    position, failure = min(failures, key=itemgetter(0))
    yield _attempt(_before(frame, position), programs, lsns)[0]
    lsn = LSN(int(lsns[position]))
    of = f' of relation "{failure.relation}"' if failure.relation else ""
    context = failure.context or f"filtering a change{of}, sent at {format_lsn(lsn)}"
    raise failure.replace(lsn=lsn, context=context)


def _attempt(frame: Frame, programs: Compiled, lsns: Positions) -> tuple[Frame, list[tuple[int, SubscriberError]]]:
    """What is published, and the first error of each group and control, with its position."""
    groups: list[ChangeGroup] = []
    failures: list[tuple[int, SubscriberError]] = []
    for group in frame.groups:
        try:
            groups += _published(group, programs, lsns)
        except SubscriberError as error:
            failures.append(_first_failure(group, programs, lsns, error))
    if not frame.controls.relations:  # there is no TRUNCATE
        return replace(frame, groups=tuple(groups)), failures
    controls: list[Control] = []
    for control in frame.controls:
        try:
            controls += _controlled(control, programs, lsns)
        except SubscriberError as error:
            failures.append((control.position, error))
    return replace(frame, groups=tuple(groups), controls=Controls.of(controls)), failures


def _before(frame: Frame, position: int) -> Frame:
    groups = (group.slice(0, int(np.searchsorted(group.positions, position))) for group in frame.groups)
    controls = frame.controls.take(np.flatnonzero(frame.controls.positions < position))
    return replace(frame, groups=tuple(group for group in groups if len(group)), controls=controls)


def _published(group: ChangeGroup, programs: Compiled, lsns: Positions) -> tuple[ChangeGroup, ...]:
    try:
        made: list[ChangeGroup] = []
        for part, then in _by_facts(group, programs, lsns):
            program = then.program(part.relation)
            made += transform(part, program.plan, program.filters)
        return tuple(made)
    except SubscriberError as error:
        raise error.replace(relation=error.relation or group.relation.qualified_name) from None


def _by_facts(group: ChangeGroup, programs: Compiled, lsns: Positions) -> Iterator[tuple[ChangeGroup, Compiled]]:
    """The changes of a table that was altered, divided by their programs."""
    if not programs.was_altered(group.relation):
        yield group, programs
        return
    rows: dict[Compiled, list[int]] = {}
    for row, lsn in enumerate(lsns[group.positions].tolist()):
        rows.setdefault(programs.at(group.relation, lsn), []).append(row)
    for then, chosen in rows.items():
        yield group.take(np.array(chosen, np.int64)), then


def _first_failure(
    group: ChangeGroup, programs: Compiled, lsns: Positions, error: SubscriberError
) -> tuple[int, SubscriberError]:
    """The position and error of the first change that cannot be published, by bisection."""
    start, stop = 0, len(group)
    while stop - start > 1:
        middle = (start + stop) // 2
        before = _failure(group.slice(start, middle), programs, lsns)
        start, stop = (start, middle) if before else (middle, stop)
    return int(group.positions[start]), _failure(group.slice(start, stop), programs, lsns) or error


def _failure(group: ChangeGroup, programs: Compiled, lsns: Positions) -> SubscriberError | None:
    try:
        _published(group, programs, lsns)
    except SubscriberError as error:
        return error
    return None


def _controlled(control: Control, programs: Compiled, lsns: Positions) -> Iterator[Control]:
    if control.message[0] != _TRUNCATE:
        yield control
        return
    relations = programs.truncated(control.relations, int(lsns[control.position]))
    if relations:
        message = decode(control.message)
        assert isinstance(message, Truncate)
        relation_ids = tuple(relation.relation_id for relation in relations)
        yield Control(control.position, encode(replace(message, relation_ids=relation_ids)), relations)
