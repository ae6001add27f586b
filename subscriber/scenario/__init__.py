"""Scenarios: psql sessions that are used as tests, and the private servers on which they run.

::

    session/           reads session files, splits text into statements, prints and compares results
    servers/           private PostgreSQL and MariaDB servers: finds, starts and stops them
    nodes/             the databases of a session: PostgreSQL databases, and targets
    report/            the HTML page that shows the results of a run
    library            finds and reads scenario files
    stage              starts servers and the Spark session, and creates the nodes of a scenario
    run_session        runs the statements of a scenario and records what they print
    expected_failures  reads the list of scenarios that are known to fail
    template           the text of a new scenario file
    demo_data          the tables and changes of ``subscriber demo``

``library`` finds a scenario, ``session`` parses it, ``stage`` creates its nodes on ``servers``,
``run_session`` runs it, ``expected_failures`` judges the result and ``report`` shows it.

The command line of scenarios is in :mod:`subscriber.cli.scenario`. The scenarios themselves are in
the folder ``scenarios/`` of the repository.
"""
