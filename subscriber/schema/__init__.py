"""Descriptions of tables as plain data, without access to a database. They are read at one place
and used in several.

- Of the publisher: ``publisher_tables`` has the properties of tables that filters and publications
  depend on, ``published_table`` the tables that publications publish, ``shape`` everything that is
  needed to create an equal table, ``attributes`` the columns in ``pg_attribute`` at one moment.
  ``server_features`` has the features of a server by its version.
- Of the target: ``kept_shape`` is the shape of a relation that the catalog stores between two
  relation messages, ``relation_names`` maps a publisher's relation to the target's.

:mod:`subscriber.publisher` reads these descriptions from the publisher, and
:mod:`subscriber.targets` creates the target's tables from them. :mod:`subscriber.catalog` stores
some of them. The relation messages of the stream are in :mod:`subscriber.protocol`.
"""
