"""Emulated publications: which changes are published, as which table, with which columns (section B
of the rules).

::

    CREATE PUBLICATION ──publication_grammar──▶ definition ─┐
                                                            ├─listed_tables──▶ what initial copies read
                                                            ├─combine──▶ plan
    the publisher's tables (schema.publisher_tables) ───────┘   │
                                                                ▼
    changes of one shape ──────────────────────────────────transform──▶ changes as pgoutput would have sent them

- ``publication_grammar``, ``publication_statements``, ``publication_options``: the commands as text
  and as data, and their options. ``membership`` checks a command and returns the new
  ``definition``.
- ``listed_tables``: the tables that the publications list. ``carrier`` and ``coverage`` check that
  the server's publication and the replica identities contain all that is needed.
- ``combine`` makes a relation's ``plan``; ``publishing`` keeps the plans and the compiled filters;
  ``transform`` applies them to changes; ``explanation`` reports why a change was sent.

The expressions of row filters are not here: :mod:`subscriber.filters` parses and evaluates them.
The commands are carried out by :mod:`subscriber.commands`. All functions here are pure. They run on
the executors as well as in the commands. A publication that cannot be evaluated exactly as the
server would evaluate it is refused by its command, and the error names the reason
(refuse_not_guess).
"""
