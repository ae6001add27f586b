"""The ``subscriber_*`` tables of a target, and every write to them: the equivalent of
pg_subscription, pg_publication and related catalogs, for any database.

- ``own_tables`` defines and creates the tables, ``catalog_names`` recognizes their names;
  ``existing_catalog`` only reads them; ``rows`` converts between rows and dataclasses.
- Subscriptions: ``subscription_options`` with ``option_readers``, ``subscriptions``,
  ``table_states``; ``catalog_version`` shows whether what was read before is still valid.
- ``foreign_servers``: the connection strings of subscriptions with SERVER.
- Emulated publications: ``publications``, ``stored_publishing``.
- Written while changes are applied: ``progress``, ``statistics`` (errors and conflicts),
  ``replaced_values``, ``logical_messages``, ``prepared_transactions``, ``schema_changes``,
  ``deleted_rows``.
- Written by commands and workers: ``leases``, ``apply_pauses``, ``cutovers``, ``released``,
  ``worker_status``, ``counters``.

Every function works in the caller's transaction, and the target translates the database's errors.
Names are looked up as they are stored: the grammar has folded them.
"""
