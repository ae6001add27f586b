"""Several writers of one subscription (``parallel_apply``): each has a connection of the target,
and they commit in the publisher's order.

::

    a batch:  piece 1 │ piece 2 │ piece 3 │ …                       whole transactions of the publisher
    writer 1  begin ── write 1 ────────── commit ── begin ── write 4 ────── commit
    writer 2  begin ──── write 2 ── wait ──────── commit ── …
    writer 3  begin ── write 3 ── wait ─────────────────── commit ── …
    readers          nothing         1    1, 2     1, 2, 3                  a prefix of the publisher's order

A piece is a transaction of the target as any other batch: its progress moves last, after the
commit of the piece before (invariants commit_order, progress_with_data). So the row of the progress
is locked only between two commits.

A piece may be written beside an earlier one if both touch different rows
(:mod:`~subscriber.apply.parallel.touched_rows`). If they touch the same, it waits for the earlier
one's commit. In all other cases it is *alone*: later pieces are rolled back, and it is applied
after the commit of the piece before, as without the option. These cases are:

- It has a TRUNCATE, or a table of which rows cannot be told apart, or whose rows are connected.
- A change did not find its row, or any statement failed.
- The rules were changed by a command meanwhile.
- The piece before has not committed for a while. It may wait for a lock that this piece holds,
  which the server cannot know, because this piece waits here.

So only what is applied alone can have a conflict, or stop the subscription. Where a batch has
a prepared transaction, or a transaction that is too large to be held in memory, the rest of the
batch is applied as without the option.

*Rejected:* locks of the target alone, without a comparison of rows. Pieces that meet would wait for
each other until the patience ends. *Rejected:* transactions that are prepared, and committed later.
They cost two more writes to disk, and keep their locks if the program ends.
"""
