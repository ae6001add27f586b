"""Reads from the catalog the rules by which one batch is applied (rules C4, C39-C41, D5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Final

from subscriber import catalog
from subscriber.apply.batch_rules import Rules
from subscriber.catalog import KeptStates, Subscription, SubscriptionRelation
from subscriber.errors import PublicationsChanged
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.messages import Relation
from subscriber.publication.publishing import Publishing
from subscriber.targets import Connection

logger = logging.getLogger(__name__)


class BatchRules:
    """Reads the rules of a subscription's batches. Each read is part of the batch's transaction, so
    the batch and its rules see the same catalog.

    Attributes:
        publishing: the emulated publications that have filtered the rows of the batches; None if
            the server has filtered them.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.publishing: Publishing | None = None
        self._subid = subscription.subid
        self._name = subscription.name
        self._replicated = _Replicated(subscription)
        self._ignored: set[str] = set()
        self._states = KeptStates()
        self._definitions = _Definitions()

    def __call__(self, connection: Connection) -> Rules:
        """Return the rules as the transaction of ``connection`` sees them.

        Raises:
            PublicationsChanged: the batch was filtered by definitions that are no longer in the
                catalog, or the slot, the publications or the name of the subscription have changed.
        """
        self._definitions.check(connection, self.publishing)
        stored = self._replicated.read(connection)
        begins = self._states.read(connection, stored).begins
        return Rules(
            partial(self._should_apply, begins),
            skip_lsn=stored.skip_lsn,
            clear_skip=lambda inside: catalog.set_skip_lsn(inside, self._subid, INVALID_LSN),
            synchronous_commit=stored.options.synchronous_commit,
            names=stored.options.map,
            add_columns=stored.options.schema_changes == "add_columns",
            is_shared=partial(_is_shared, connection, stored),
            log_conflict_values=stored.options.log_conflict_values,
            binary=stored.options.binary,
            values=stored.options.unrepresentable_values,
        )

    def _should_apply(self, begins: Mapping[tuple[str, str], LSN | None], relation: Relation, final_lsn: LSN) -> bool:
        """Return whether a change is applied (rules C4, D5). A table that is ignored for good is
        logged once.
        """
        key = (relation.namespace, relation.name)
        if key not in begins:
            if relation.qualified_name not in self._ignored:
                self._ignored.add(relation.qualified_name)
                logger.warning(
                    'subscription "%s" ignores changes of relation "%s": it was not published when the subscription was'
                    " created or last refreshed",
                    self._name,
                    relation.qualified_name,
                )
            return False
        begin = begins[key]
        return begin is not None and begin <= final_lsn


class CatchUpRules:
    """The rules of a table's catch-up: only the changes of that table are applied.

    Args:
        subscription: the subscription that the table belongs to.
        relation: the table.
        publishing: the same as :attr:`BatchRules.publishing`.
    """

    def __init__(
        self, subscription: Subscription, relation: SubscriptionRelation, publishing: Publishing | None
    ) -> None:
        self._replicated = _Replicated(subscription)
        self._key = relation.schema, relation.name
        self._publishing = publishing
        self._definitions = _Definitions()

    def __call__(self, connection: Connection) -> Rules:
        """Return the rules as the transaction of ``connection`` sees them.

        Raises:
            PublicationsChanged: for the same reasons as :meth:`BatchRules.__call__`.
        """
        self._definitions.check(connection, self._publishing)
        stored = self._replicated.read(connection)
        options = stored.options
        return Rules(
            should_apply=lambda relation, _lsn: (relation.namespace, relation.name) == self._key,
            names=options.map,
            add_columns=options.schema_changes == "add_columns",
            is_shared=partial(_is_shared, connection, stored),
            log_conflict_values=options.log_conflict_values,
            binary=options.binary,
            values=options.unrepresentable_values,
        )


def _is_shared(connection: Connection, subscription: Subscription, relation: Relation) -> bool:
    """Return whether another subscription of the target also writes to the table of a relation."""
    place = subscription.options.map.local(relation.namespace, relation.name)
    return any(
        other.options.map.local(one.schema, one.name) == place
        for other in catalog.list_subscriptions(connection)
        if other.subid != subscription.subid
        for one in catalog.relations_of(connection, other.subid)
    )


class _Replicated:
    """Checks that a subscription still has the slot and the publications that its worker was
    started for.

    A command that takes the slot away records what has been applied
    (:mod:`subscriber.commands.release_slot`); no batch may advance that position afterwards. With
    emulated publications, a batch that began before ALTER SUBSCRIPTION … PUBLICATION was filtered
    by the old list of publications. While batches are applied, the beginning of the slot's changes
    is known; it is not if a command has given the subscription another slot.
    """

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def read(self, connection: Connection) -> Subscription:
        """Return the subscription as the transaction of ``connection`` sees it.

        Raises:
            PublicationsChanged: the subscription was dropped or renamed, or its slot or its
                publications have changed.
        """
        before = self._subscription
        stored = catalog.find_subscription(connection, before.name)
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
    """Checks whether emulated publications are unchanged. Their versions show that
    (:mod:`subscriber.catalog.catalog_version`).
    """

    def __init__(self) -> None:
        self._checked: tuple[Publishing, Mapping[str, int]] | None = None

    def check(self, connection: Connection, publishing: Publishing | None) -> None:
        """Compare ``publishing`` with the catalog.

        Raises:
            PublicationsChanged: the definitions in the catalog are different.
        """
        if publishing is None:
            return
        # Only the publications of this subscription are read, because every batch calls this.
        versions = catalog.publication_versions(connection, [one.name for one in publishing.publications])
        if self._checked is not None and self._checked[0] is publishing and self._checked[1] == versions:
            return
        if any(catalog.find_publication(connection, one.name) != one for one in publishing.publications):
            raise PublicationsChanged(
                "the subscription's publications have changed",
                hint="The changes are filtered again, by the definitions that the publications have now.",
            )
        self._checked = publishing, versions
