"""A small plugin that writes the messages of pgoutput's protocol version 1, as somebody might write
it: all tables, text only, no publications.
"""

from __future__ import annotations

from subscriber.output_plugin import Action, Datum, HeapTuple, Relation
from subscriber.protocol import messages as m
from subscriber.protocol.encode import encode


class SmallPgoutput:
    """The plugin."""

    def begin(self, ctx, txn) -> None:
        """BEGIN is written with the first change (rule A21)."""

    def change(self, ctx, txn, relation, change) -> None:
        if not txn.output_plugin_private:
            txn.output_plugin_private = True
            self._write(ctx, m.Begin(txn.final_lsn, txn.xact_time, txn.xid))
        self._write(ctx, described(relation), last_write=False)
        old = None if change.old_tuple is None else sent(change.old_tuple)
        new = None if change.new_tuple is None else sent(change.new_tuple)
        kind: m.OldKind = "O" if relation.replica_identity == "f" else "K"
        if change.action is Action.INSERT:
            assert new is not None
            self._write(ctx, m.Insert(relation.oid, new))
        elif change.action is Action.UPDATE:
            assert new is not None
            self._write(ctx, m.Update(relation.oid, None if old is None else kind, old, new))
        elif old is not None:
            self._write(ctx, m.Delete(relation.oid, kind, old))

    def commit(self, ctx, txn, commit_lsn) -> None:
        if txn.output_plugin_private:
            self._write(ctx, m.Commit(commit_lsn, txn.end_lsn, txn.xact_time))

    def _write(self, ctx, message: m.Message, *, last_write: bool = True) -> None:
        ctx.prepare_write(last_write)
        ctx.out += encode(message)
        ctx.write(last_write)


def described(relation: Relation) -> m.Relation:
    columns = tuple(
        m.RelationColumn(int(one.name in relation.identity_columns), one.name, one.type_oid, one.type_modifier)
        for one in relation.columns
    )
    return m.Relation(relation.oid, relation.schema, relation.name, relation.replica_identity, columns)


def sent(row: HeapTuple) -> m.TupleData:
    return tuple(m.TextValue(value.text) if isinstance(value, Datum) else value for value in row.values)
