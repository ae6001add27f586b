"""The cutover of a subscription: from the last write at the publisher to the first in the target.

::

    1 preconditions ─▶ 2 writes ─▶ 3 barrier ─▶ 4 sequences ─▶ 5 schema ─▶ 6 verify ─▶ 7 reverse ─▶ 8 switch
                       fence, or    written and   set          nothing     equal at     slot before   subscription
                       quiet        drained                    missing     the barrier  first write   disabled, slot kept
                          │                                                                 │              │
                          └──────────────── --abandon undoes them, the last first ◀─────────┴──────────────┘
                                            --finish drops the subscription with its slot

- ``steps``: the steps on the publisher's side; ``target_steps``: those on the target's side.
- ``work``: what a step works with: the row in the catalog, the options, waiting.
- ``world``: what the steps ask of publisher and target, as a Protocol; ``real_world`` does it.
- ``run_cutover``: the order of the steps, going on, abandoning, finishing, a dry run.
- ``holder``: the command's claim on the row, and its heartbeat.
- ``unwritten``: whether the application has written to the target, before a switch is abandoned;
  ``compare_at_rest`` compares.
- ``report``: the report as JSON and as a page of HTML.

What holds:

- A step writes to the catalog what it is about to do before it does it. So ``--abandon`` undoes it
  wherever the command was interrupted.
- Every step may be done again. After an interruption the same command begins with the first step
  and does all of them again, since the publisher may have been written to meanwhile. Only the
  result of verify is kept, while no transaction came after it.
- Every step's check is made before the first step changes anything, because from then on the
  application stands still, and once more when its turn comes.
- The subscription is disabled in the transaction that says so in the catalog, and only after
  another barrier before which nothing came.
- A command that has changed nothing leaves no row.
- Nobody is disconnected and nothing is dropped unasked.

*Rejected:* to undo everything when a step fails or time runs out. An operator who has stopped the
application wants to put one thing right and go on, and lifting a fence lets writers in again.
"""
