"""Checks the option ``unrepresentable_values`` against the target's tables, as far as they exist.

A column of a table that does not exist yet is checked when its first change or its copy comes
(:func:`subscriber.apply.writing.unrepresentable.replaced_columns`).
"""

from __future__ import annotations

from collections.abc import Collection

from subscriber.apply.writing.unrepresentable import refusal, refused_column
from subscriber.commands.notices import Notify, warning
from subscriber.errors import UsageError
from subscriber.schema.relation_names import RelationNames, TableName
from subscriber.schema.value_rules import ValueRules
from subscriber.targets import Target


def check_value_rules(target: Target, rules: ValueRules, names: RelationNames) -> None:
    """Refuse columns that the option names, and in which NULL cannot take the place of values.

    Args:
        target: the database of the tables.
        rules: the option.
        names: maps the publisher's names to the target's.

    Raises:
        UsageError: 42703, a table has no such column.
        TargetRelationError: 42P16, a column is NOT NULL or part of the key.
    """
    named = list(rules.named())
    if not named:
        return
    with target.reporting(), target.engine.connect() as connection:
        for place, name in named:
            table = target.shapes.reflect(connection, *names.local(*place))
            if table is None:
                continue
            column, relation = table.column(name), names.qualified(*place)
            if column is None:
                raise UsageError(
                    f'column "{name}" of relation "{relation}" does not exist',
                    sqlstate="42703",
                    relation=relation,
                    hint="The option unrepresentable_values names columns as the target has them.",
                )
            reason = refusal(table.key or (), column)
            if reason is not None:
                raise refused_column(relation, name, reason)


def warn_unused_rules(notify: Notify, rules: ValueRules, relations: Collection[TableName]) -> None:
    """Warn of tables in the option that are not published: they may be published later, or the
    option may have an error.
    """
    for table in dict.fromkeys(table for table, *_ in rules.columns):
        if table not in relations:
            name = ".".join(table)
            warning(
                notify, f'relation "{name}" of option "unrepresentable_values" matches no table of the subscription'
            )
