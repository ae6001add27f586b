"""What is published: which changes go on, as which table, with which columns (section B of the
rules).

::

    CREATE PUBLICATION ──publication_grammar──▶ definition ─┐
                                                            ├─listed_tables──▶ what initial copies read
                                                            ├─combine──▶ plan
    the publisher's tables (schema.publisher_tables) ───────┘   │
                                                                ▼
    changes of one shape ──────────────────────────────────transform──▶ changes as pgoutput would have sent them

A row filter's expression is :mod:`subscriber.filters`'. Everything here is pure, and runs on the
executors as well as at CREATE PUBLICATION. What cannot be evaluated exactly as the server would is
refused when it is given (refuse_not_guess), by name.
"""
