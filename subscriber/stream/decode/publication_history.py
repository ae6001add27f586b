"""By which publications the changes of a journal were applied, for readers without the target.

::

    publications.json   {"versions": [{"since": "0/100", "publishing": {…}},     changes of (0/100, 0/200]
                                      {"since": "0/200", "publishing": null}]}   changes after 0/200, as the server sent them

The journal of a subscription with a carrier has everything that the carrier sends. `subscriber run`
filters it when it applies it, and its publications may be altered at any time. So it records here
by which publications, and by which tables of the publisher, it applies what comes after an LSN,
before it does so. Up to what the subscription has applied, the record is complete and does not
change any more; nothing is known of what comes after that. A journal that was only ever received
from publications of the server has no such file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.base.lsn import LSN, format_lsn, parse_lsn
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.publication.publishing_json import publishing_of, publishing_values
from subscriber.stream.journal.control import read_control
from subscriber.stream.journal.storage import Storage

PUBLICATIONS_FILE: Final = "publications.json"
_VERSIONS: Final = "versions"
_KEPT: Final = 2


@dataclass(frozen=True, slots=True)
class PublicationVersion:
    """By what the changes after ``since`` are applied; None: as the server sent them."""

    since: LSN
    publishing: Publishing | None


@dataclass(frozen=True, slots=True)
class PublicationHistory:
    """The versions of a journal, the oldest first."""

    versions: tuple[PublicationVersion, ...]

    def at(self, finish: LSN) -> Publishing | None:
        """By what the transaction that ends at ``finish`` was applied. NotSupportedError: it is not
        recorded, because it was applied before the first version.
        """
        return self._of(next((one for one in reversed(self.versions) if one.since < finish), None))

    def divided(self, finishes: npt.NDArray[np.int64]) -> Iterator[tuple[slice, Publishing | None]]:
        """Rows that end at these ascending LSNs, by their versions. Raises as :meth:`at`."""
        begins = np.searchsorted(finishes, [one.since for one in self.versions], side="right").tolist()
        bounds = [0, *begins, len(finishes)]
        for version, (begin, end) in zip((None, *self.versions), pairwise(bounds), strict=True):
            if begin < end:
                yield slice(begin, end), self._of(version)

    def within(self, begin: LSN, end: LSN) -> list[Publishing | None]:
        """The versions of what ends in (``begin``, ``end``]."""
        ends = [*(one.since for one in self.versions[1:]), None]
        spans = zip(self.versions, ends, strict=True)
        return [one.publishing for one, until in spans if one.since < end and (until is None or begin < until)]

    def _of(self, version: PublicationVersion | None) -> Publishing | None:
        if version is not None:
            return version.publishing
        begin = self.versions[0].since
        raise NotSupportedError(
            f"the journal does not say by which publications the changes up to {format_lsn(begin)} were applied",
            detail="`subscriber run` records it since then.",
            hint=f'Begin after them, with option("startingLsn", "{format_lsn(begin)}") and a new checkpoint.',
            lsn=begin,
        )


def record_publishing(storage: Storage, publishing: Publishing | None, since: LSN) -> None:
    """From now on, changes after ``since`` are applied as ``publishing`` says, durably; None: as
    the server sends them. What was recorded for changes after ``since`` was never applied.
    """
    content = storage.read(PUBLICATIONS_FILE)
    stored = _stored(content)
    if not stored and publishing is None:
        storage.delete([] if content is None else [PUBLICATIONS_FILE])
        return
    values = None if publishing is None else json.loads(json.dumps(publishing_values(publishing)))
    versions = [one for one in stored if parse_lsn(one["since"]) < since]
    if not versions or versions[-1]["publishing"] != values:
        versions.append({"since": format_lsn(since), "publishing": values})
    control = read_control(storage)
    begin = since if control is None else control.begin
    trimmed = sum(parse_lsn(following["since"]) <= begin for following in versions[1:])
    versions = versions[trimmed:]
    if versions != stored:
        storage.replace(PUBLICATIONS_FILE, json.dumps({_VERSIONS: versions}).encode(), durable=True)


def read_publication_history(storage: Storage) -> PublicationHistory | None:
    """The history of a journal; None if there is none. UsageError: it cannot be read."""
    content = storage.read(PUBLICATIONS_FILE)
    return None if content is None else _parsed(content, storage.url)


@lru_cache(maxsize=_KEPT)
def _parsed(content: bytes, url: str) -> PublicationHistory:
    stored = _stored(content)
    if not stored:
        raise UsageError(
            f'"{url}/{PUBLICATIONS_FILE}" is no record of publications',
            sqlstate="55000",
            hint="Remove the file, and start `subscriber run` again: it records its publications from then on.",
        )
    return PublicationHistory(
        tuple(
            PublicationVersion(
                parse_lsn(one["since"]), None if one["publishing"] is None else publishing_of(one["publishing"])
            )
            for one in stored
        )
    )


def _stored(content: bytes | None) -> Sequence[Any]:
    """The versions as they are stored; none if they cannot be read."""
    try:
        return [] if content is None else list(json.loads(content)[_VERSIONS])
    except (ValueError, KeyError, TypeError):
        return []
