"""Frames as the carrier has sent them → frames as the emulated publications publish them. This
stage runs on the executors, after decoding.

::

    Frame (the carrier's) ──▶ groups    transform: filtered, rewritten, under the name and with the columns that are published
                              T         only relations that publish truncate, under the published names; without any: no message
                              the rest  unchanged: transactions begin and end at the same places, even if no change is left in them

Positions do not change, so the order does not change either (commit_order). An error names the
change that caused it by its LSN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Final

import numpy as np
import numpy.typing as npt

from subscriber.errors import SubscriberError
from subscriber.lsn import LSN, format_lsn
from subscriber.protocol.changes import ChangeGroup, Frame
from subscriber.protocol.controls import Control, Controls
from subscriber.protocol.decode import decode
from subscriber.protocol.encode import encode
from subscriber.protocol.messages import Truncate
from subscriber.publication.publishing import Compiled
from subscriber.publication.transform import transform

_TRUNCATE: Final = ord("T")

Positions = npt.NDArray[np.int64]


def publish(frame: Frame, programs: Compiled, lsns: Positions) -> Iterator[Frame]:
    """Return what is published of a frame.

    If a change cannot be published, the changes before it are returned first, and then the error is
    raised. The earlier transactions are thereby applied, as if the server had sent them before its
    error (rule C35).

    Args:
        frame: all changes that the carrier has sent.
        programs: the compiled publications.
        lsns: the WAL position of each change, by its position in the frame.

    Raises:
        PublisherTablesOutdated: the frame has a table that differs from the stored tables of the
            publisher.
        SubscriberError: a change cannot be published exactly (relation, LSN).
    """
    made, failures = _attempt(frame, programs)
    if not failures:
        yield made
        return
    position, failure = min(failures, key=itemgetter(0))
    yield _attempt(_before(frame, position), programs)[0]
    lsn = LSN(int(lsns[position]))
    of = f' of relation "{failure.relation}"' if failure.relation else ""
    context = failure.context or f"filtering a change{of}, sent at {format_lsn(lsn)}"
    raise failure.replace(lsn=lsn, context=context)


def _attempt(frame: Frame, programs: Compiled) -> tuple[Frame, list[tuple[int, SubscriberError]]]:
    """Return what is published, and the errors: for each group and control that cannot be
    published, the first position with its error.
    """
    groups: list[ChangeGroup] = []
    failures: list[tuple[int, SubscriberError]] = []
    for group in frame.groups:
        try:
            groups += _published(group, programs)
        except SubscriberError as error:
            failures.append(_first_failure(group, programs, error))
    if not frame.controls.relations:  # there is no TRUNCATE
        return Frame(tuple(groups), frame.controls), failures
    controls: list[Control] = []
    for control in frame.controls:
        try:
            controls += _controlled(control, programs)
        except SubscriberError as error:
            failures.append((control.position, error))
    return Frame(tuple(groups), Controls.of(controls)), failures


def _before(frame: Frame, position: int) -> Frame:
    groups = (group.slice(0, int(np.searchsorted(group.positions, position))) for group in frame.groups)
    controls = frame.controls.take(np.flatnonzero(frame.controls.positions < position))
    return Frame(tuple(group for group in groups if len(group)), controls)


def _published(group: ChangeGroup, programs: Compiled) -> tuple[ChangeGroup, ...]:
    try:
        program = programs.program(group.relation)
        return transform(group, program.plan, program.filters)
    except SubscriberError as error:
        raise error.replace(relation=error.relation or group.relation.qualified_name) from None


def _first_failure(group: ChangeGroup, programs: Compiled, error: SubscriberError) -> tuple[int, SubscriberError]:
    """Return the position of the first change that cannot be published, found by bisection, and its
    error.
    """
    start, stop = 0, len(group)
    while stop - start > 1:
        middle = (start + stop) // 2
        before = _failure(group.slice(start, middle), programs)
        start, stop = (start, middle) if before else (middle, stop)
    return int(group.positions[start]), _failure(group.slice(start, stop), programs) or error


def _failure(group: ChangeGroup, programs: Compiled) -> SubscriberError | None:
    try:
        _published(group, programs)
    except SubscriberError as error:
        return error
    return None


def _controlled(control: Control, programs: Compiled) -> Iterator[Control]:
    if control.message[0] != _TRUNCATE:
        yield control
        return
    relations = programs.truncated(control.relations)
    if relations:
        message = decode(control.message)
        assert isinstance(message, Truncate)
        relation_ids = tuple(relation.relation_id for relation in relations)
        yield Control(control.position, encode(replace(message, relation_ids=relation_ids)), relations)
