"""Publications that the subscriber evaluates: which changes go on, as which table, with which columns (semantics section B).

::

    CREATE PUBLICATION ──grammar──▶ definition ─┐                      expression/  WHERE text → typed tree, as parse_expr.c makes it
                                                ├─combine──▶ plan      functions/   PostgreSQL's operators and functions over Arrow
    the publisher's tables ──tables─────────────┘   │                  evaluate     typed tree, rows → true, false, null
                                                    ▼
    changes of one shape ──────────────────────transform──▶ changes as pgoutput would have sent them

Everything here is pure, and runs on the executors as well as at CREATE PUBLICATION. What cannot be evaluated exactly as the server
would is refused when it is given (refuse_not_guess), by name; nothing is guessed row by row.
"""
