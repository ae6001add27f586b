"""The lexemes of PostgreSQL's SQL, from which the grammars of commands and expressions read.

::

    text ──statements──▶ statements with their lexemes ──cursor──▶ a grammar, which asks for the next
             │                                                     name, string or keyword
             └── lexer (scan.l), string_constants

- ``lexer`` splits a text into lexemes; ``string_constants`` reads the escapes of string constants.
- ``statements`` splits a text into statements where psql does.
- ``cursor`` reads lexemes in order, and the names and option lists of commands.
- ``option_list`` reads the values of options; ``keywords`` has the lists of PostgreSQL's keywords.

The grammars are not here. Subscriptions, publications and filters have one each
(:mod:`subscriber.commands.subscription_grammar`, :mod:`subscriber.publication.publication_grammar`,
:mod:`subscriber.filters.parse`).
"""
