"""The versions of rows that changes of a table with ``history = scd2`` end.

::

    UPDATE, DELETE ─▶ INSERT … SELECT the open version, with the end that the change brings
                   ─▶ the UPDATE or DELETE of the open version

So values that an UPDATE does not send stay in the open version, and a change that does not find its
row is the conflict that it is in any other table: the INSERT has then added nothing. All columns of
the primary key are known, so the version is found exactly as the change finds it.

*Rejected:* to end the open version by an UPDATE and insert the next one. Values that were not sent
would have to be read, and an UPDATE that does not find its row would have to be told from an
INSERT.
"""

from __future__ import annotations

from subscriber.apply.relations.target_relations import RelationMap, TargetRelation
from subscriber.apply.statements.change_statements import ChangeStatements
from subscriber.apply.statements.identity import RowIdentity
from subscriber.apply.statements.row_statements import CompiledStatement, build_ending, build_statement, shape_of
from subscriber.base.errors import TargetRelationError
from subscriber.postgres.protocol.changes import ChangeGroup
from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.history_rules import END, HistoryRules
from subscriber.targets import Target


class Versions:
    """Keeps ended versions in the transaction of one batch."""

    def __init__(
        self, target: Target, statements: ChangeStatements, relations: RelationMap, history: HistoryRules
    ) -> None:
        self._target = target
        self._statements = statements
        self._relations = relations
        self._history = history

    def are_kept(self, relation: Relation) -> bool:
        return self._history.of(relation.namespace, relation.name) == "scd2"

    def end(self, changes: ChangeGroup) -> None:
        """Keep the open versions that UPDATEs or DELETEs of different rows will change next."""
        statement = self.ending(changes)
        if statement is not None:
            self._statements.execute(statement, self._statements.bind(statement, changes), count=False)

    def ending(self, group: ChangeGroup) -> CompiledStatement | None:
        """The statement for each change of a group; None if they end no version.
        TargetRelationError: the target's table cannot keep versions.
        """
        if group.action == "I" or not self.are_kept(group.relation):
            return None
        local = self._relations.open(group.relation)
        identity = self._statements.identity(local)
        if not self._statements.statement(group).finds_exactly or not {*END} < {*identity.columns}:
            raise _not_kept(local)
        return self._built(local, group, identity)

    def end_all(self, group: ChangeGroup) -> bool:
        """End all open versions, if the group has TRUNCATEs; returns whether it has."""
        if group.action != "D" or not self.are_kept(group.relation) or group.old is None:
            return False
        local = self._relations.open(group.relation)
        if {column.name for column in group.relation.columns if column.is_identity} <= {*group.old.schema.names}:
            return False  # it has the publisher's key
        identity = RowIdentity(END, whole_row=False)
        delete = build_statement(self._target, local, group, identity)
        for statement in (self._built(local, group, identity), delete):
            self._statements.execute(statement, self._statements.bind(statement, group), count=False)
        return True

    def _built(self, local: TargetRelation, group: ChangeGroup, identity: RowIdentity) -> CompiledStatement:
        key = (local, ("ending", identity.columns, *shape_of(group)))
        statement = self._statements.cache.get(key)
        if statement is None:
            statement = self._statements.cache[key] = build_ending(self._target, local, group, identity)
        return statement


def _not_kept(local: TargetRelation) -> TargetRelationError:
    return TargetRelationError(
        f'table "{local.qualified_name}" of the target cannot keep versions of rows',
        sqlstate="55000",
        detail="Its primary key must have the columns of the publisher's key, which must be of types whose equal values"
        f" have the same text, and {' and '.join(END)}.",
        hint="Create the table with WITH (create_tables = true), or give it this primary key; or use history = append.",
    )
