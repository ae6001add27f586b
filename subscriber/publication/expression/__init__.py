"""Row filter expressions: from SQL text to a typed tree, the way PostgreSQL's parser goes.

::

    text ──parse (sqlglot)──▶ syntax tree ──analyze──▶ tree.Expression ──validate──▶ what a publication allows
                                             │
                                             resolve: which operator, function and cast is meant (parse_oper.c, parse_func.c,
                                             parse_coerce.c), among builtins: pg_type, pg_operator, pg_proc, pg_cast as recorded
"""
