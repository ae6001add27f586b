"""Tables as plain data, without access to a database. :mod:`subscriber.publisher` reads them.

- ``published_table``: the tables that publications publish
- ``publisher_tables``: what filters and publications depend on, and ``pg_attribute`` at one moment
- ``shape``: everything that is needed to create an equal table
- ``stored_shape``: what the catalog keeps of a relation between two relation messages
- ``relation_names``: the option ``map``; ``value_rules``: the option ``unrepresentable_values``
- ``history_rules``: the options ``history`` and ``history_tables``
- ``transform_rules``: the option ``transform``; ``transform_values`` computes its values
- ``server_features``: the features of a server by its version
"""
