"""How far a target is: the position that it has, and the rows of its tables."""

from __future__ import annotations

import sqlalchemy as sa

from subscriber.base.errors import SubscriberError
from subscriber.base.lsn import LSN
from subscriber.base.reach import Reach
from subscriber.base.settings import Settings
from subscriber.catalog.subscriptions import Subscription
from subscriber.catalog.table_states import relations_of
from subscriber.stream.journal.positions import journal_positions
from subscriber.stream.journal.storage import journal_url
from subscriber.targets import Target


def reached_position(target: Target, subscription: Subscription, settings: Settings) -> Reach:
    with target.reporting(), target.engine.connect() as connection:
        applied = subscription.progress.read(connection)
    return reach_of(subscription, settings, applied)


def reach_of(subscription: Subscription, settings: Settings, applied: LSN) -> Reach:
    """What was received is unknown if the journal is on another machine."""
    if subscription.system_identifier is None or subscription.slot_name is None:
        return Reach(applied=applied)
    url = journal_url(settings.journal, subscription.system_identifier, subscription.slot_name)
    try:
        return Reach(*journal_positions(url), applied)
    except SubscriberError:
        return Reach(applied=applied)


def count_rows(target: Target, subscription: Subscription) -> dict[str, int]:
    """By the publisher's ``schema.table``, of the tables that the target has."""
    counts = {}
    with target.reporting(), target.engine.connect() as connection:
        relations = relations_of(connection, subscription.subid)
        places = [subscription.options.map.in_target(one.schema, one.name) for one in relations]
        tables = target.shapes.reflect_all(connection, places)
        for relation, place in zip(relations, places, strict=True):
            table = tables.get(place)
            if table is not None:
                query = sa.select(sa.func.count()).select_from(table.clause())
                counts[relation.qualified_name] = int(connection.execute(query).scalar_one())
    return counts
