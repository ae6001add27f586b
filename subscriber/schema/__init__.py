"""What a table is like, as data: pure descriptions that are read in one place and used in several.

``publisher_tables`` has the tables of a publisher's database as filters and publications look at
them, ``published_table`` what publications publish of them, ``shape`` a table as one has to know it
to create its like, ``attributes`` the columns as ``pg_attribute`` has them at one moment.
:mod:`subscriber.publisher` reads them. ``server_features`` says what a server can do, by its
version. ``kept_shape`` is what the catalog keeps of a relation between two messages,
``relation_names`` says which relation of the target a publisher's relation is.
"""
