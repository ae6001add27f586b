"""What the option ``transform`` makes of a subscription's tables: what is refused, and which keys
lose their meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from subscriber.apply.relations.target_relations import RelationMap
from subscriber.apply.writing.transformed_columns import check_transformed_columns
from subscriber.base.errors import SubscriberError, TargetRelationError, UsageError
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.commands.notices import Notify, warning
from subscriber.postgres.schema.published_table import PublishedTable
from subscriber.postgres.schema.publisher_tables import PublisherTable
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.schema.transform_rules import ColumnTransform, TransformRules, unidentified
from subscriber.postgres.schema.transform_values import is_injective, transformed_relation
from subscriber.publisher.catalog import announced_relations
from subscriber.publisher.client import PublisherClient
from subscriber.publisher.shapes import read_published_shapes
from subscriber.targets import Target


class LostMeaning(NamedTuple):
    """A key of a publisher's table that does not mean the same in the target."""

    relation: str
    message: str
    detail: str


def refuse_transforms(
    target: Target,
    publisher: PublisherClient,
    tables: Sequence[PublishedTable],
    options: SubscriptionOptions,
    *,
    expected: Collection[TableName] | None = None,
) -> Iterator[SubscriberError]:
    """The errors for which a command refuses the option, one for a table at most. A table that it
    names, and that is ``expected`` (None: every one), must be among ``tables`` (42P01): if its name
    has an error, or it was renamed, its values would arrive as they are.
    """
    published = {table.key for table in tables}
    for named in options.transform.tables:
        if named not in published and (expected is None or named in expected):
            yield UsageError(
                f'relation "{".".join(named)}" of option "transform" matches no table of the subscription',
                sqlstate="42P01",
                hint="Name tables as the publisher sends them: a partition by its own name, unless it is published via its root."
                " If the table is no longer published, use ALTER SUBSCRIPTION ... SET (transform = '...') without it.",
            )
    chosen = [table for table in tables if table.key in options.transform.tables]
    if not chosen:
        return
    shapes = read_published_shapes(publisher.connection, chosen)
    with target.reporting(), target.engine.connect() as connection:
        places = {table.key: options.map.in_target(*table.key) for table in chosen}
        there = target.shapes.reflect_all(connection, places.values())
        # Other columns may not fit, of which the command only warns.
        relations = RelationMap(target, connection, options.map, add_columns=True)
        for announced in announced_relations(publisher.connection, chosen):
            key = announced.namespace, announced.name
            table = there.get(places[key])
            try:
                relation = transformed_relation(options.transform, options.history_rules.relation(announced))
                if table is None:
                    _check_new(options, shapes.get(key))
                    continue
                check_transformed_columns(target, options.transform, relations.compare(relation, table))
            except SubscriberError as error:
                if not isinstance(error, TargetRelationError) or error.column in options.transform.of(*key):
                    yield error.replace(relation=error.relation or options.map.qualified(*key))


def _check_new(options: SubscriptionOptions, shape: PublisherTable | None) -> None:
    """A table that is to be created gets columns that hold the values."""
    if shape is None:
        return
    created = options.shape(shape)
    for name, transform in options.transform.of(*shape.key).items():
        if name in created.key_columns and not is_injective(transform):
            raise unidentified(shape.qualified_name, name, transform)


def check_transforms(
    target: Target,
    publisher: PublisherClient,
    tables: Sequence[PublishedTable],
    options: SubscriptionOptions,
    notify: Notify,
    *,
    expected: Collection[TableName] | None = None,
) -> None:
    """Raise the first error, or warn of keys that lose their meaning."""
    for error in refuse_transforms(target, publisher, tables, options, expected=expected):
        raise error
    for lost in lost_meanings(publisher, tables, options.transform):
        warning(notify, f'table "{lost.relation}": {lost.message}', detail=lost.detail)


def lost_meanings(
    publisher: PublisherClient, tables: Sequence[PublishedTable], rules: TransformRules
) -> Iterator[LostMeaning]:
    """The keys of published tables that have columns with transforms."""
    if not rules.columns:
        return
    for shape in read_published_shapes(publisher.connection, tables).values():
        yield from _lost(shape, rules)


def _lost(shape: PublisherTable, rules: TransformRules) -> Iterator[LostMeaning]:
    transforms = rules.of(*shape.key)
    name = shape.qualified_name
    touched = [column for column in shape.key_columns if column in transforms]
    if touched:
        yield LostMeaning(
            name,
            f"its key has other values: {_shown(touched, transforms)}",
            "Rows are found by the transformed values. Their order, and ranges of them, have no meaning.",
        )
    for unique in shape.unique:
        unsure = [one for one in unique.columns if one in transforms and not is_injective(transforms[one])]
        if unsure and unique.columns != shape.key_columns:
            yield LostMeaning(
                name,
                f"the unique key ({', '.join(unique.columns)}) does not tell rows apart: {_shown(unsure, transforms)}",
                "Different values become equal. A unique key of the target would refuse rows; create_tables leaves it out.",
            )
    for foreign in shape.foreign_keys:
        if not rules.keeps(shape.key, foreign):
            other = f"{foreign.schema}.{foreign.table}"
            yield LostMeaning(
                name,
                f"its column {', '.join(foreign.columns)} does not refer to {other} ({', '.join(foreign.referenced)}) any more",
                "The values on both sides have different transforms. Give both the transform sha256; create_tables leaves the"
                " foreign key out.",
            )
    for check in shape.checks:
        changed = [column for column in transforms if column in check]
        if changed:
            yield LostMeaning(
                name,
                f"a CHECK constraint may not hold: {_shown(changed, transforms)}",
                "It names the column, whose values are others. create_tables leaves it out.",
            )


def _shown(columns: Sequence[str], transforms: Mapping[str, ColumnTransform]) -> str:
    return ", ".join(f"{column} ({transforms[column].words})" for column in columns)
