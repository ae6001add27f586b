"""Scenarios: psql sessions that are used as tests, and the private servers on which they run.

::

    session/           reads session files, splits text into statements, prints and compares results
    servers/           private servers and empty databases: finds, starts and stops them
    nodes/             the databases of a session: PostgreSQL databases, and targets
    library            finds and reads scenario files, and the list of those that are known to fail
    stage              starts servers and the Spark session, and creates the nodes of a scenario
    run_session        runs the statements of a scenario and records what they print
    session_page       the HTML page that shows the results of a run; templates, report.css, report.js
    side_by_side       pairs the expected and the printed lines of a statement
    in_process         a subscription in one process, from a publisher without a server
    emulate            applies a journal in one process without Spark
    conformance_kit    the checks of ``subscriber conformance``: conformance_storage (with the values of
                       type_edges and the tables of written_tables), conformance_replication and
                       conformance_scenarios
    pytest_plugin      the checks as tests of pytest
    demo_data          the tables and changes of ``subscriber demo``

The scenarios themselves are in the folder ``scenarios/`` of the repository, and in this package
where it is installed.
"""
