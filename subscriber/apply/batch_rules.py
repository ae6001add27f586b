"""The catalog's settings for the transactions of one batch. :mod:`subscriber.catalog` reads them,
and this package follows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import sqlalchemy as sa

from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.messages import Relation
from subscriber.schema.relation_names import SAME_NAMES, RelationNames
from subscriber.schema.value_rules import STOP, ValueRules

ShouldApply = Callable[[Relation, LSN], bool]
"""Whether changes of a relation are applied in a transaction with this commit LSN (rules C4, D5).
The relation's table is looked up in both cases.
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """The catalog's settings for a batch.

    Attributes:
        should_apply: relations for which it returns False are looked up, and their changes are
            ignored (rules C4, D5).
        skip_lsn: the transaction to leave out (rule C40); 0/0 means no transaction.
        clear_skip: clears ``skip_lsn`` in the batch's transaction, after it was used (rule C41).
        synchronous_commit: how the target commits, see :meth:`Transactions.set_synchronous_commit`.
        names: the target's names of the publisher's relations.
        add_columns: a column that the target's table lacks is added to it.
        is_shared: whether another subscription also writes to the target's table of a relation.
        log_conflict_values: conflicts are logged and stored with the values of their rows (rule
            C21).
        binary: values in binary format are accepted only by columns that read this form; otherwise
            they are converted in the same way as text values (rule C5).
        values: in which columns NULL takes the place of values that the target cannot hold.
    """

    should_apply: ShouldApply = field(default=lambda _relation, _lsn: True)
    skip_lsn: LSN = INVALID_LSN
    clear_skip: Callable[[sa.Connection], None] = field(default=lambda _connection: None)
    synchronous_commit: str = "off"
    names: RelationNames = SAME_NAMES
    add_columns: bool = False
    is_shared: Callable[[Relation], bool] = field(default=lambda _relation: False)
    log_conflict_values: bool = False
    binary: bool = True
    values: ValueRules = STOP


ReadRules = Callable[[sa.Connection], Rules]
"""Reads the rules of one batch in the batch's transaction. A setting that a command changes
meanwhile is used from the next batch on. A table that was handed over before the batch is included.
"""
