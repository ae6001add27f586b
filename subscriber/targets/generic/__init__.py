"""The roles for any database that SQLAlchemy supports, with nothing but what SQLAlchemy knows.

What is here: one file for each role of :mod:`subscriber.targets.roles` that every target has;
``types``, the column types that ``ddl`` declares; and ``target``, which combines the roles. They
are used in the order errors, transactions, shapes, values, matching and writing (the stream) or
loading (the initial copy). ``bulk`` is what dialects share whose driver can execute a statement for
many rows.

What is not here: the Protocols of the roles are in :mod:`subscriber.targets.roles`. The optional
roles are only in the folders of those dialects that have them, such as
:mod:`subscriber.targets.postgresql`.
"""
