"""The HTML page with the results of a run of scenarios.

::

    side_by_side   pairs the expected and the printed lines of a statement
    page           the page: a table of scenarios, and every session with expected and actual lines
    markup         HTML elements, with escaped text
    report.css, report.js   the style and the filters of the page

``page`` gets the results from :mod:`subscriber.scenario.run_session` and their verdicts from
:mod:`subscriber.scenario.expected_failures`.

Whether two lines are equal is decided in :mod:`subscriber.scenario.session.expect`, not here.
"""
