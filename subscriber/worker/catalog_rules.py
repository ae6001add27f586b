"""Reads from the catalog the rules by which one batch is applied (rules C4, C39-C41, D5)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from subscriber.apply.applier import Rules, ShouldApply
from subscriber.base.errors import PublicationsChanged
from subscriber.base.lsn import INVALID_LSN, LSN
from subscriber.catalog.publications import find_publication, publication_versions
from subscriber.catalog.subscriptions import CachedSubscription, Subscription, list_subscriptions, set_skip_lsn
from subscriber.catalog.table_states import CachedStates, SubscriptionRelation, relations_of
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.publication.publishing import Publishing
from subscriber.targets import Connection

logger = logging.getLogger(__name__)


class BatchRules:
    """Reads the rules of a subscription's batches, in the transaction of each batch, so that both
    see the same catalog. ``publishing`` are the emulated publications that have filtered its rows.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.publishing: Publishing | None = None
        self._subid = subscription.subid
        self._name = subscription.name
        self._replicated = _Replicated(subscription)
        self._ignored: set[str] = set()
        self._states = CachedStates()
        self._definitions = _Definitions()

    def __call__(self, connection: Connection) -> Rules:
        """The rules as the transaction of ``connection`` sees them. PublicationsChanged: the batch
        was filtered by definitions that are no longer in the catalog, or the slot, the publications
        or the name of the subscription have changed.
        """
        self._definitions.check(connection, self.publishing)
        stored = self._replicated.read(connection)
        begins = self._states.read(connection, stored).begins
        return replace(
            _rules(
                connection, stored, partial(self._should_apply, begins), records=self._replicated.cached.any_retains
            ),
            skip_lsn=stored.skip_lsn,
            clear_skip=lambda inside: set_skip_lsn(inside, self._subid, INVALID_LSN),
        )

    def _should_apply(self, begins: Mapping[tuple[str, str], LSN | None], relation: Relation, final_lsn: LSN) -> bool:
        """Whether a change is applied (rules C4, D5). An ignored table is logged once."""
        key = (relation.namespace, relation.name)
        if key not in begins:
            if relation.qualified_name not in self._ignored:
                self._ignored.add(relation.qualified_name)
                logger.warning(
                    'subscription "%(subscription)s" ignores changes of relation "%(relation)s": it was not published when the'
                    " subscription was created or last refreshed",
                    {"subscription": self._name, "relation": relation.qualified_name},
                )
            return False
        begin = begins[key]
        return begin is not None and begin <= final_lsn


class CatchUpRules:
    """The rules of a catch-up, for its tables only. Only one thread may use an object."""

    def __init__(
        self, subscription: Subscription, relations: Iterable[SubscriptionRelation], publishing: Publishing | None
    ) -> None:
        self._replicated = _Replicated(subscription)
        self._keys = {(relation.schema, relation.name) for relation in relations}
        self._publishing = publishing
        self._definitions = _Definitions()

    def leave(self, relation: SubscriptionRelation) -> None:
        self._keys.discard((relation.schema, relation.name))

    def __call__(self, connection: Connection) -> Rules:
        self._definitions.check(connection, self._publishing)
        stored = self._replicated.read(connection)
        return _rules(
            connection,
            stored,
            lambda relation, _lsn: (relation.namespace, relation.name) in self._keys,
            records=self._replicated.cached.any_retains,
        )


def _rules(connection: Connection, stored: Subscription, should_apply: ShouldApply, *, records: bool) -> Rules:
    return Rules(
        should_apply,
        options=stored.options,
        is_shared=partial(_is_shared, connection, stored),
        retains=stored.options.retain_dead_tuples and stored.retention_active,
        records=records,
        source=(stored, stored.version, records),
    )


def _is_shared(connection: Connection, subscription: Subscription, relation: Relation) -> bool:
    place = subscription.options.map.in_target(relation.namespace, relation.name)
    return any(
        other.options.map.in_target(one.schema, one.name) == place
        for other in list_subscriptions(connection)
        if other.subid != subscription.subid
        for one in relations_of(connection, other.subid)
    )


class _Replicated:
    """Checks that a subscription still has the slot and the publications of its worker.

    A command that takes the slot away records what has been applied
    (:mod:`subscriber.commands.subscription_slots`); no batch may advance that position afterwards.
    A batch that began before ALTER SUBSCRIPTION … PUBLICATION was filtered by the old list.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.cached = CachedSubscription(subscription.name)
        self._subscription = subscription

    def read(self, connection: Connection) -> Subscription:
        before = self._subscription
        stored = self.cached.read(connection)
        if stored is None or stored.subid != before.subid:
            raise PublicationsChanged(f'subscription "{before.name}" was dropped or renamed', hint=_LOOKED_AT_AGAIN)
        is_same_slot = stored.slot_name == before.slot_name and stored.slot_adopted
        if not is_same_slot or stored.publications != before.publications:
            raise PublicationsChanged(
                f'the slot or the publications of subscription "{before.name}" have changed', hint=_LOOKED_AT_AGAIN
            )
        return stored


_LOOKED_AT_AGAIN: Final = "The worker ends, and a new worker continues with the present contents of the catalog."


class _Definitions:
    """Checks by their versions whether emulated publications are unchanged."""

    def __init__(self) -> None:
        self._checked: tuple[Publishing, Mapping[str, int]] | None = None

    def check(self, connection: Connection, publishing: Publishing | None) -> None:
        if publishing is None:
            return
        # Only the publications of this subscription are read, because every batch calls this.
        versions = publication_versions(connection, [one.name for one in publishing.publications])
        if self._checked is not None and self._checked[0] is publishing and self._checked[1] == versions:
            return
        if any(find_publication(connection, one.name) != one for one in publishing.publications):
            raise PublicationsChanged(
                "the subscription's publications have changed",
                hint="The changes are filtered again, by the definitions that the publications have now.",
            )
        self._checked = publishing, versions
