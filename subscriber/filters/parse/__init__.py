"""The text of an expression → its syntax, by the precedences of gram.y. Names are not looked up yet.

``filter_lexer`` finds the tokens, ``token_reader`` reads them in order, ``parser`` climbs the precedences, ``special_forms`` are the
expressions with a grammar of their own (CASE, BETWEEN, IN, AT TIME ZONE …), ``type_names`` reads types, and ``syntax`` is the result.
"""
