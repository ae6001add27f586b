"""PostgreSQL's built-in functions and operators over columns of values, one file a family; see :mod:`.registry`.

A file is found by what it is about: ``logic``, ``integers``, ``floats``, ``numeric``, ``text``, ``patterns``, ``bytea``, ``bits``,
``dates``, ``intervals``, ``uuid``, ``json``, ``network``, ``arrays``. Importing this package registers them all.
"""
