"""Row filter expressions: from SQL text to a typed tree, the way PostgreSQL's parser goes.

::

    text ──lexer, parse──▶ syntax ──analyze──▶ tree.Expression ──validate──▶ what a publication allows ──supported──▶ what we compute
           (scan.l, gram.y)          │         (parse_expr.c)
                                     ├ columns          what a name refers to
                                     ├ candidates       which operator and function is meant (parse_oper.c, parse_func.c)
                                     ├ coerce           which conversions are made (parse_coerce.c), polymorphic: of types any…
                                     ├ collate          which collation every value has (parse_collate.c)
                                     ├ generated        virtual generated columns, written out
                                     └ builtins         pg_type, pg_operator, pg_proc, pg_cast as recorded

    tree.Expression ──deparse──▶ text, as pg_get_expr writes it
"""

from subscriber.publication.expression.check import analyze_filter, check_filter, columns_of, filter_text, kept_text

__all__ = ["analyze_filter", "check_filter", "columns_of", "filter_text", "kept_text"]
