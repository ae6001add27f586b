"""What target and publisher say of a subscription while somebody looks at its page: its newest
conflicts, its publications with their filters, and its cutover.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from subscriber.base.errors import SubscriberError, fault
from subscriber.base.lsn import LSN, format_lsn
from subscriber.catalog.statistics import StoredConflict, newest_conflicts
from subscriber.catalog.stored_publishing import read_definitions
from subscriber.catalog.subscriptions import Subscription
from subscriber.operate.cutover_page import CutoverFacts, read_cutover_facts
from subscriber.operate.observation import Observation
from subscriber.operate.page_sources import PageSources
from subscriber.operate.questions import Asking
from subscriber.postgres.publication.definition import OPERATIONS, Publication
from subscriber.postgres.sql.quoting import quote_identifier, quote_qualified_name
from subscriber.publisher.connection import connect_publisher
from subscriber.publisher.server_publications import read_publications

_CONFLICTS: Final = 20
_CONFLICT_SECONDS: Final = 5.0
_CUTOVER_SECONDS: Final = 2.0
_PUBLICATION_SECONDS: Final = 60.0
"""Each question takes a connection to the publisher."""
_MEMBERS: Final = 200
_TEXT: Final = 1_000
_FIRST_SECONDS: Final = 0.5
"""How long the first page waits for answers, so that it is whole without JavaScript, too."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LatestAnswer(Generic[T]):
    """``error`` says why there is none."""

    value: T | None = None
    error: str | None = None


class _Repeated(Generic[T]):
    """A question that is asked again while its answer is looked at and older than ``seconds``."""

    def __init__(self, ask: Callable[[], T], name: str, seconds: float) -> None:
        self._asking = Asking(partial(_answered, ask), name)
        self._seconds = seconds
        self._asked = -seconds
        self._last: LatestAnswer[T] = LatestAnswer()
        self._lock = threading.Lock()

    def latest(self, wait_seconds: float) -> LatestAnswer[T]:
        if not self._lock.acquire(blocking=False):
            return self._last  # another page takes the answer
        try:
            asks = time.monotonic() - self._asked >= self._seconds
            if asks:
                self._asked = time.monotonic()
            self._last = self._asking.answer(asks=asks, wait_seconds=wait_seconds) or self._last
        finally:
            self._lock.release()
        return self._last


def _answered(ask: Callable[[], T]) -> LatestAnswer[T]:
    try:
        return LatestAnswer(ask())
    except SubscriberError as error:
        return LatestAnswer(error=error.message)
    except Exception as error:
        return LatestAnswer(error=fault("the question has failed", error).report())


@dataclass(frozen=True, slots=True)
class SubscriptionDetails:
    conflicts: LatestAnswer[list[StoredConflict]] = LatestAnswer()
    publications: LatestAnswer[list[Publication]] = LatestAnswer()


NOT_ASKED: Final = SubscriptionDetails()


@dataclass(frozen=True, slots=True)
class _Questions:
    """``about`` is what the answers depend on; the states of tables are no part of it."""

    about: tuple[object, ...]
    conflicts: _Repeated[list[StoredConflict]]
    publications: _Repeated[list[Publication]]
    cutover: _Repeated[CutoverFacts]


class DetailsOfSubscriptions:
    """Asks for the details of those subscriptions whose pages are open. Each function returns what
    was answered last; the first time, ``may_wait`` waits for a moment.
    """

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._asked: dict[int, _Questions] = {}

    def of(self, subscription: Subscription, *, may_wait: bool) -> SubscriptionDetails:
        asked, wait = self._questions(subscription), _FIRST_SECONDS if may_wait else 0.0
        return SubscriptionDetails(asked.conflicts.latest(wait), asked.publications.latest(wait))

    def cutover_of(self, subscription: Subscription, *, may_wait: bool) -> LatestAnswer[CutoverFacts]:
        return self._questions(subscription).cutover.latest(_FIRST_SECONDS if may_wait else 0.0)

    def forget(self, subid: int) -> None:
        self._asked.pop(subid, None)

    def _questions(self, subscription: Subscription) -> _Questions:
        about = (subscription.connection, subscription.publications, subscription.options.carrier)
        asked = self._asked.get(subscription.subid)
        if asked is None or asked.about != about:
            asked = self._asked[subscription.subid] = _Questions(
                about,
                _Repeated(partial(self._conflicts, subscription.subid), "conflicts of a page", _CONFLICT_SECONDS),
                _Repeated(partial(self._publications, subscription), "publications of a page", _PUBLICATION_SECONDS),
                _Repeated(partial(self._cutover, subscription.subid), "cutover of a page", _CUTOVER_SECONDS),
            )
        return asked

    def _cutover(self, subid: int) -> CutoverFacts:
        target = self._sources.target
        with target.reporting(), target.engine.connect() as connection:
            return read_cutover_facts(connection, subid)

    def _conflicts(self, subid: int) -> list[StoredConflict]:
        target, with_values = self._sources.target, self._sources.show_values
        with target.reporting(), target.engine.connect() as connection:
            return newest_conflicts(connection, subid, _CONFLICTS, with_values=with_values)

    def _publications(self, subscription: Subscription) -> list[Publication]:
        """The emulated publications of a subscription with a carrier, else those of the server."""
        if subscription.options.carrier is not None:
            target = self._sources.target
            with target.reporting(), target.engine.connect() as connection:
                return list(read_definitions(connection, subscription.publications))
        with connect_publisher(subscription.conninfo, "subscriber dashboard") as publisher:
            return read_publications(publisher, subscription.publications)


# What is shown ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConflictRow:
    """``skip`` is the statement that leaves out the transaction that the conflict holds up."""

    recorded_at: str
    kind: str
    relation: str
    lsn: str
    xid: int
    index: str
    attempts: int
    values: list[tuple[str, str]]
    is_passed: bool
    skip: str | None


@dataclass(frozen=True, slots=True)
class PublicationRow:
    """A member of a publication: a table, or all tables of a schema or of the database."""

    publication: str
    publishes: str
    member: str
    columns: str
    where: str


def skip_statement(name: str, lsn: LSN) -> str:
    return f"ALTER SUBSCRIPTION {quote_identifier(name)} SKIP (lsn = '{format_lsn(lsn)}');"


def details_shown(details: SubscriptionDetails, one: Observation, offered: Collection[str]) -> dict[str, Any]:
    """``offered`` are SKIP statements that the page offers elsewhere."""
    members = list(_members(details.publications.value or ()))
    return {
        "conflict_rows": list(_conflict_rows(details.conflicts.value or (), one, set(offered))),
        "conflicts_error": details.conflicts.error,
        "publication_rows": members[:_MEMBERS],
        "more_members": max(0, len(members) - _MEMBERS),
        "publications_error": details.publications.error,
    }


def _conflict_rows(conflicts: Sequence[StoredConflict], one: Observation, offered: set[str]) -> Iterator[ConflictRow]:
    for found in conflicts:
        is_passed = one.worker is not None and found.final_lsn <= one.worker.applied
        skip = None if is_passed or one.worker is None else skip_statement(one.name, found.final_lsn)
        yield ConflictRow(
            f"{found.recorded_at[:19].replace('T', ' ')} UTC",
            found.kind,
            found.relation,
            format_lsn(found.final_lsn),
            found.xid,
            found.index or "",
            found.attempts,
            [(name.replace("_", " "), _value(value)) for name, value in found.values.items()],
            is_passed,
            None if skip in offered else skip,
        )
        if skip is not None:
            offered.add(skip)


def _value(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}… ({len(text):,} characters)"


def _members(publications: Sequence[Publication]) -> Iterator[PublicationRow]:
    for one in publications:
        publishes = ", ".join(operation for operation in OPERATIONS if operation in one.publish) or "nothing"
        if one.via_root:
            publishes += ", as the partition root"
        for member, columns, where in _members_of(one):
            yield PublicationRow(one.name, publishes, member, columns, where)


def _members_of(one: Publication) -> Iterator[tuple[str, str, str]]:
    if one.all_tables:
        excepted = ", ".join(quote_qualified_name(*key) for key in one.excepted)
        yield f"all tables except {excepted}" if excepted else "all tables", "all", ""
    if one.all_sequences:
        yield "all sequences", "", ""
    for schema in one.schemas:
        yield f"all tables in schema {quote_identifier(schema)}", "all", ""
    for entry in one.tables:
        columns = "all" if entry.columns is None else ", ".join(map(quote_identifier, entry.columns))
        yield quote_qualified_name(entry.schema, entry.name), columns, entry.where or ""
    if not (one.all_tables or one.all_sequences or one.schemas or one.tables):
        yield "no table", "", ""
