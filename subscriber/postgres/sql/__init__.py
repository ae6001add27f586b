"""PostgreSQL's lexemes, from which the grammars of commands and expressions read.

- ``lexer``: a text as lexemes (scan.l); ``string_constants``: the escapes of its constants
- ``statements``: a text as statements, cut where psql cuts it
- ``cursor``: lexemes in order, and the names and option lists of commands
- ``option_list``: the values of options; ``keywords``: the lists of keywords
- ``quoting``: identifiers and literals as SQL
"""
