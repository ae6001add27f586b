"""The bound of one subscription's apply: up to which LSN batches may apply now.

::

    entries      ──┬── 0/200 ──┬── 0/300 ──┬── 0/400 ──┬── 0/500 ──▶
    no bound       │           │           │           │  ▲ the next batch ends where the journal ends
    bound 0/350    │           │  ▲ here: the last entry that ends at or before the bound; then it waits
    bound 0/0      ▲ here: nothing is applied

Every place that chooses the end of a batch asks for the bound: the end of the journal that the
driver follows (:mod:`subscriber.pipeline.tail`), the end of Spark's micro-batch, and the first
entry after a failure (:mod:`subscriber.pipeline.sink`). Spark's planner is another process and does
not ask. A micro-batch that it has planned beyond the bound is applied up to the bound by the
driver, and the rest waits in the same micro-batch. A batch never ends inside a transaction: a run
of several small transactions is divided between two of them, everything else is left whole.

*Invariant.* A batch asks again after it has got its turn. So, of the one that sets the bound and
then finds that no batch is in progress, and a batch that announces itself and then asks for the
bound, at least one sees the other. Nobody has to wait for a lock while a batch runs.

*Rejected:* a closed gate (:class:`subscriber.runtime.gate.Gate`), which holds everything, but
cannot let a batch run up to an LSN. *Rejected:* a bound that each batch reads in its transaction:
that is one more query for each small transaction.
"""

from __future__ import annotations

from subscriber.lsn import LSN


class ApplyBound:
    """The bound of one subscription; see the module's docstring. Any thread may use it.

    Attributes:
        position: nothing that ends after this LSN may be applied; None if there is no bound.
    """

    def __init__(self, position: LSN | None = None) -> None:
        self.position = position

    def allows(self, end: LSN) -> bool:
        """Return whether a batch may end at ``end``."""
        position = self.position
        return position is None or end <= position
