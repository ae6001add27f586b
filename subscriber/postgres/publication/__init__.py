"""Emulated publications: which changes are published, as which table, with which columns (section B
of the rules).

::

    CREATE PUBLICATION ──publication_grammar──▶ definition ─┐
                                                            ├─listed_tables──▶ what initial copies read
                                                            ├─combine──▶ plan
    the publisher's tables (schema.publisher_tables) ───────┘   │
                                                                ▼
    changes of one shape ──────────────────────────────────transform──▶ changes as pgoutput would have sent them

``publication_grammar`` and ``publication_statements`` are the commands as text and as data,
``membership`` checks a command and returns the new ``definition``. ``coverage`` checks that carrier
and replica identities have all that is needed. ``publishing`` keeps the plans and the compiled
filters, ``publishing_json`` is what is stored of them, ``earlier_tables`` has the facts of tables
for earlier changes, ``explanation`` reports why a change was sent. All functions are pure, and run
on the executors as well as in the commands. What cannot be evaluated exactly as the server would is
refused by the command (refuse_not_guess).
"""
