"""The words of PostgreSQL's SQL that commands are made of.

::

    text ──lexer──▶ lexemes ──cursor──▶ a grammar, which asks for the next name, string or keyword

Subscriptions and publications have grammars of their own (:mod:`subscriber.commands.subscription_grammar`,
:mod:`subscriber.publication.publication_grammar`); what a name, a constant or an option is, they have in common.
"""
