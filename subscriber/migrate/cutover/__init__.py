"""The cutover of a subscription: from the last write at the publisher to the first in the target.

::

    1 preconditions ─▶ 2 writes ─▶ 3 barrier ─▶ 4 sequences ─▶ 5 schema ─▶ 6 verify ─▶ 7 reverse ─▶ 8 switch
                       fence, or    written and   set          nothing     equal at     slot before   subscription
                       quiet        drained                    missing     the barrier  first write   disabled, slot kept
                          │                                                                 │              │
                          └──────────────── --abandon undoes them, the last first ◀─────────┴──────────────┘
                                            --finish drops the subscription with its slot

- ``steps``: the steps; ``work``: what they work with: the catalog's row, options, waiting.
- ``cutover_servers``: publisher and target, and what the steps ask of them.
- ``run_cutover``: the order of the steps, going on, abandoning, finishing, a dry run.
- ``holder``: the command's claim on the row.
- ``cutover_report``: what a command has done, as JSON and as a page of HTML.

What holds:

- A step writes to the catalog what it is about to do before it does it. So ``--abandon`` undoes it
  wherever the command was interrupted.
- Every step may be done again. After an interruption the same command begins with the first step
  again, since the publisher may have been written to. Only the result of verify is kept, while no
  transaction came after it.
- The subscription is disabled in the transaction that says so in the catalog, and only after
  another barrier before which nothing came.
- A command that has changed nothing leaves no row.

*Rejected:* to undo everything when a step fails. An operator wants to put one thing right and go
on, and lifting a fence lets writers in again.
"""
