"""What is written down about a failure of a subscription's workers: statistics, the table's error, the conflict."""

from __future__ import annotations

import logging

from subscriber import catalog
from subscriber.apply.conflict_tally import records_of
from subscriber.apply.failure import ApplyFailure
from subscriber.catalog import Subscription, SubscriptionRelation
from subscriber.errors import SubscriberError
from subscriber.targets import Target

logger = logging.getLogger(__name__)


def record(
    target: Target,
    subscription: Subscription,
    error: SubscriberError,
    relation: SubscriptionRelation | None = None,
    *,
    sync: bool = False,
) -> None:
    """Write a failure down in the target, in a transaction of its own: the one that met it was rolled back.

    Args:
        target: where the catalog is.
        subscription: whose worker failed.
        error: what it raised.
        relation: the table that was copied.
        sync: whether a table's copy failed, and not the apply worker.
    """
    subid, name = subscription.subid, subscription.name
    try:
        with target.begin() as connection:
            catalog.record_error(connection, name, error.report(), worker="sync" if sync else "apply", lsn=error.lsn)
            if relation is not None:
                catalog.record_relation_error(connection, subid, relation.schema, relation.name, error.report())
            conflict = ApplyFailure.of(error).conflict
            if conflict is not None:
                # At every attempt, as PostgreSQL does.
                catalog.count_conflicts(connection, subid, name, {conflict.kind: 1})
                catalog.ConflictLog(connection, subid, name).write_stop(records_of(conflict))
    except SubscriberError:
        # The target itself may be what failed; the log has the error.
        logger.debug("could not record an error in the target")


def disable(target: Target, subscription: Subscription) -> None:
    """As ``disable_on_error`` asks (rule C35): PostgreSQL's DisableSubscriptionAndExit."""
    with target.begin() as connection:
        catalog.set_enabled(connection, subscription.name, enabled=False)
    logger.warning('subscription "%s" has been disabled because of an error', subscription.name)
