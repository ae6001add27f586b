"""By which publications the feed has the changes of a journal.

The slot of a subscription with a carrier sends everything that the carrier publishes. `subscriber
run` records in the journal by which publications of the subscription it applies that
(:mod:`subscriber.stream.decode.publication_history`), and the feed applies the same ones. They may
be altered at any time, from the next batch of the target on. So the feed goes as far as the target
has gone.

A change has the name of the table that it was made in. It may be published as a change of another
table, of which this one is a partition, so tables of the journal and of the feed are distinguished.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.base.errors import NotSupportedError, SubscriberError, UsageError
from subscriber.base.lsn import LSN, MAX_LSN, format_lsn
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.publishing import Publishing, compiled
from subscriber.stream.decode.publication_history import PublicationHistory, read_publication_history
from subscriber.stream.journal.control import JournalControl
from subscriber.stream.journal.named_consumers import is_named
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.retention import ConsumerPosition, consumer_files, read_consumer_file

_LISTINGS: Final = 4
_READ_ALL: Final = 'or read all changes of the carrier with option("emulatedPublications", "ignore").'


@dataclass(frozen=True, slots=True)
class FeedPublications:
    """``history`` is None if the server has evaluated the publications. ``end`` is the LSN up to
    which it is known.
    """

    history: PublicationHistory | None = None
    end: LSN = MAX_LSN

    @property
    def newest(self) -> Publishing | None:
        """Those that are applied now."""
        return None if self.history is None else self.history.versions[-1].publishing

    def shapes(self, relation: Relation, begin: LSN, end: LSN) -> list[Relation]:
        """As which relations a relation of the journal may be published in (``begin``, ``end``]."""
        if self.history is None:
            return [relation]
        found: list[Relation] = []
        for publishing in self.history.within(begin, end):
            with contextlib.suppress(SubscriberError):  # whoever reads a change at this place is told
                found += [relation] if publishing is None else compiled(publishing).published_relations(relation)
        return list(dict.fromkeys(found))

    def check_names(self, names: Sequence[str], control: JournalControl, start: LSN, end: LSN) -> None:
        """UsageError: not all changes in (``start``, ``end``] are of exactly these publications."""
        if self.history is None:
            found = {control.publications if start >= control.published_from else ()}
        else:
            versions = self.history.within(start, end)
            found = {
                control.publications if one is None else tuple(publication.name for publication in one.publications)
                for one in versions
            }
        for others in found:
            if sorted(others) != sorted(names):
                raise _other_publications(names, others, control)


SERVER_PUBLICATIONS: Final = FeedPublications()


def _other_publications(names: Sequence[str], others: Sequence[str], control: JournalControl) -> UsageError:
    asked, known = ", ".join(names), ", ".join(others)
    if not others:
        return UsageError(
            f"the journal does not say from which publications the changes up to {format_lsn(control.published_from)} are",
            hint=f'Begin after them, with option("startingLsn", "{format_lsn(control.published_from)}") and a new checkpoint. Or name'
            ' the tables, with option("tables", "…").',
        )
    return UsageError(
        f"the journal has the changes of the publications {known}, and not of {asked}",
        sqlstate="22023",
        hint=f'Name all of them, with option("publication", "{known}"). Or receive {asked} into another journal:'
        " `subscriber receive --slot … --publication …`.",
    )


def feed_publications(journal: JournalReader, *, whole_carrier: bool) -> FeedPublications:
    """What the journal says now. NotSupportedError: its publications are emulated, and it does not
    say how.
    """
    if whole_carrier:
        return SERVER_PUBLICATIONS
    history = read_publication_history(journal.storage)
    emulated = None if history is None else history.versions[-1].publishing
    carried = _carried(journal, 1 if emulated is None else _LISTINGS)
    if emulated is not None and not carried:
        raise NotSupportedError(
            "the journal has all changes of a carrier, and its subscription is gone",
            detail="Nothing more is applied, so it is not known how the rest would be filtered.",
            hint=f"Start the subscription again, {_READ_ALL}",
        )
    if carried and emulated is None:
        raise NotSupportedError(
            f'the publications of subscription "{carried[0].subscription}" are emulated, and its journal has all changes of '
            f'publication "{carried[0].carrier}"',
            detail="The journal does not say by which row filters and column lists they are applied.",
            hint=f"Start `subscriber run`, which records it, {_READ_ALL}",
        )
    return FeedPublications(history, min((one.lsn for one in carried), default=MAX_LSN))


def _carried(journal: JournalReader, attempts: int) -> list[ConsumerPosition]:
    """The subscriptions with a carrier that read the journal, or that have left it last."""
    journal.listed()
    names = journal.other_files
    for _ in range(attempts):  # a file that is replaced may be missing in a listing
        files = sorted(file for file in consumer_files(journal.storage, names) if not is_named(file))
        read = (read_consumer_file(journal.storage, file) for file in files)
        found = [one for one in read if one is not None and one.carrier is not None and one.purpose != "sync"]
        if found:
            return found
        names = journal.storage.names()
    return []
