"""What the catalog says about one batch (rules C4, C39-C41, D5)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from subscriber.apply.rules import Rules
from subscriber.errors import PublicationsChanged
from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.messages import Relation
from subscriber.publication.publishing import Publishing
from subscriber.subscription import catalog
from subscriber.subscription.catalog import Subscription, SubscriptionRelation

logger = logging.getLogger(__name__)


class BatchRules:
    """Reads the rules of a subscription's batches, each in the batch's own transaction, so that it is of one mind with the catalog.

    Attributes:
        publishing: what the batches' rows were published by; None where the server did.
    """

    def __init__(self, subscription: Subscription) -> None:
        self.publishing: Publishing | None = None
        self._subid = subscription.subid
        self._name = subscription.name
        self._ignored: set[str] = set()

    def __call__(self, connection: Any) -> Rules:
        """The rules as they are in the transaction of ``connection``.

        Raises:
            PublicationsChanged: the batch was filtered by definitions that are the catalog's no more.
        """
        _check_unchanged(connection, self.publishing)
        stored = catalog.get_subscription(connection, self._name)
        begins = {
            (relation.schema, relation.name): relation.applies_from
            for relation in catalog.relations_of(connection, self._subid)
        }
        return Rules(
            partial(self._should_apply, begins),
            skip_lsn=stored.skip_lsn,
            clear_skip=lambda inside: catalog.set_skip_lsn(inside, self._subid, INVALID_LSN),
            synchronous_commit=stored.options.synchronous_commit,
            names=stored.options.map,
            add_columns=stored.options.schema_changes == "add_columns",
            log_conflict_values=stored.options.log_conflict_values,
            binary=stored.options.binary,
        )

    def _should_apply(self, begins: Mapping[tuple[str, str], LSN | None], relation: Relation, final_lsn: LSN) -> bool:
        """Rules C4, D5; what is ignored for good is said once."""
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
    """The rules of a table's catch-up: its own changes, and nothing else.

    Args:
        subscription: whose table it is.
        relation: the table.
        publishing: as :attr:`BatchRules.publishing`.
    """

    def __init__(
        self, subscription: Subscription, relation: SubscriptionRelation, publishing: Publishing | None
    ) -> None:
        self._name = subscription.name
        self._key = relation.schema, relation.name
        self._publishing = publishing

    def __call__(self, connection: Any) -> Rules:
        """The rules as they are in the transaction of ``connection``.

        Raises:
            PublicationsChanged: as :meth:`BatchRules.__call__`.
        """
        _check_unchanged(connection, self._publishing)
        options = catalog.get_subscription(connection, self._name).options
        return Rules(
            should_apply=lambda relation, _lsn: (relation.namespace, relation.name) == self._key,
            names=options.map,
            add_columns=options.schema_changes == "add_columns",
            log_conflict_values=options.log_conflict_values,
            binary=options.binary,
        )


def _check_unchanged(connection: Any, publishing: Publishing | None) -> None:
    if publishing is None:
        return
    # Only those that are its own are read: this is asked in every batch.
    if any(catalog.find_publication(connection, one.name) != one for one in publishing.publications):
        raise PublicationsChanged(
            "the subscription's publications have changed", hint="The changes are filtered anew, by what they are now."
        )
