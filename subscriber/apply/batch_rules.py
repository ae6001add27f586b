"""What the catalog says about the transactions of one batch; the subscription reads it, apply goes
by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import sqlalchemy as sa

from subscriber.lsn import INVALID_LSN, LSN
from subscriber.protocol.messages import Relation
from subscriber.schema.relation_names import SAME_NAMES, RelationNames

ShouldApply = Callable[[Relation, LSN], bool]
"""Whether changes of a relation are applied in a transaction of this commit LSN (rules C4, D5); its
table is looked up either way.
"""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the catalog says about a batch.

    Attributes:
        should_apply: relations it says no to are looked up, and ignored (rules C4, D5).
        skip_lsn: the transaction to leave out (rule C40); 0/0 is none.
        clear_skip: forgets ``skip_lsn`` in the batch's transaction, when it is used up (rule C41).
        synchronous_commit: how the target is to commit, see
            :meth:`Transactions.set_synchronous_commit`.
        names: the target's names of the publisher's relations.
        add_columns: a column that the target's table lacks is added to it.
        is_shared: whether another subscription writes to the target's table of a relation, too.
        log_conflict_values: conflicts are said and kept with the values of their rows (rule C21).
        binary: what came in binary form is only for columns that read it; else it is converted as
            texts are (rule C5).
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


ReadRules = Callable[[sa.Connection], Rules]
"""Reads the rules of one batch in its transaction: what a command has changed meanwhile holds from
the next batch on, and a table that was handed over before the batch is in it."""
