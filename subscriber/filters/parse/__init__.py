"""The text of an expression → its syntax, by the precedences of gram.y. Names are not looked up
yet.

``parser`` climbs the precedences over a :class:`subscriber.sql.cursor.Cursor`, ``special_forms``
are the expressions with a grammar of their own (CASE, CAST, EXTRACT, TRIM …), ``type_names`` reads
types, and ``syntax`` is the result.
"""
