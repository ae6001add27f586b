"""psql sessions as tests, and the private servers that they run on.

::

    session/  a file, cut as psql cuts it, printed as psql prints; what is expected
    servers/  private PostgreSQL and MariaDB servers: found, started, stopped
    nodes/    the databases of a session: PostgreSQL's own, and targets of ours
    report/   the page that shows a run

``library`` finds scenarios, ``stage`` puts up servers and nodes, ``run_session`` plays a session,
``expected_failures`` knows which fail.
"""
