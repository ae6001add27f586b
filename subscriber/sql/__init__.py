"""The words of PostgreSQL's SQL that commands and expressions are made of.

::

    text ──statements──▶ statements with their lexemes ──cursor──▶ a grammar, which asks for the next
             │                                                     name, string or keyword
             └── lexer (scan.l), string_constants

Subscriptions, publications and filters have each a grammar
(:mod:`subscriber.commands.subscription_grammar`, :mod:`subscriber.publication.publication_grammar`,
:mod:`subscriber.filters.parse`); what a name, a constant or an option is, they have in common.
"""
