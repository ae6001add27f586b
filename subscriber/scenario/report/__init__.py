"""The HTML page with the results of a run of scenarios.

::

    page              the page: an overview, and a section for every session
    entries           the results, each with its place on the page
    overview          the table of scenarios
    session_section   a session with its expected and actual lines
    side_by_side      pairs the expected and the printed lines of a statement
    markup            HTML elements, with escaped text
    report.css, report.js   the style and the filters of the page

``page`` gets the results from :mod:`subscriber.scenario.run_session` and their verdicts from
:mod:`subscriber.scenario.expected_failures`.

Whether two lines are equal is decided in :mod:`subscriber.scenario.session.expect`, not here.
"""
