"""A small publisher in memory, which writes a WAL without a server.

::

    publisher ── session ── statements ── transactions
        │          DDL        rows           BEGIN … COMMIT, savepoints, prepared transactions
        └──────────────── state ───────────────┘
                   the WAL, the catalogs, the counters, and what the rows module keeps

``tables`` describes tables and what DDL makes of them, ``values`` writes the values of rows.
"""
