"""The execution of CREATE, ALTER and DROP of SUBSCRIPTION, PUBLICATION and SERVER.

- ``dispatch``: ``run_command`` finds the function for a command and wakes a ``subscriber run``.
- ``subscription_grammar``: the commands as text and as data; their options are in
  :mod:`subscriber.catalog.subscription_options`.
- ``create_subscription``, ``alter_subscription``, ``alter_publications``, ``refresh_sequences``,
  ``table_commands``, ``recreate_slot``, ``drop_subscription``, ``publication_commands``: the
  commands.
- ``server_grammar``, ``server_commands``: foreign servers and user mappings.
- ``requirements``: can the publisher and the target do what the options need?
- ``check_publications``, ``check_target_tables``: what is published, and does the target have the
  tables? ``create_tables`` creates missing ones. ``check_transforms``: which columns can have
  other values?
- ``sequence_rows``: the sequences that a subscription follows.
- ``hold_apply``: holds the apply of a subscription at an LSN for a command that reads the target.
- ``slot_position``: from which LSN a subscription may start, proved from journal, publisher and
  target; ``lost_changes``: what a lost slot has cost; ``consumers``: who else reads a journal.
- ``reached_position``: how far a target is; ``wake``: wakes a ``subscriber run`` of this machine.
- ``subscription_slots``, ``notices``: used by several commands.

A command writes the catalog, and a running worker reads it.
"""
