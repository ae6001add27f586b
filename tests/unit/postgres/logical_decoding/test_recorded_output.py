"""Our output plugins write what PostgreSQL 18, 16 and 15 wrote for the same workload, byte for
byte.

``tests/recordings/record_output_plugins.py`` made the recordings. Positions, transactions, OIDs and
times are replaced by canonical numbers on both sides (:mod:`tests.workloads.canonical`).
"""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

import pytest

from tests.recordings.record_output_plugins import recorded
from tests.workloads.canonical import canonical
from tests.workloads.exceptions import EXCEPTIONS
from tests.workloads.library import MAJORS, RUNS, WORKLOADS, in_memory, pairs

pytestmark = pytest.mark.slow

WITHOUT_TEST_DECODING = {16}
"""No package that we know has this version with the plugin."""

EVERY_MAJOR = pytest.mark.parametrize("major", MAJORS, ids="pg{}".format)


def compared(result, run):
    return result if isinstance(result, tuple) else canonical(result, run)


@pytest.mark.parametrize(
    ("workload", "major"),
    [
        pytest.param(workload, major, id=f"{workload.name}-pg{major}")
        for workload in WORKLOADS.values()
        for major in MAJORS
        if workload.since <= major
    ],
)
def test_the_output_of_a_workload_is_the_servers(workload, major):
    different = {}
    for one, run in pairs(major):
        if one is not workload or (run.plugin == "test_decoding" and major in WITHOUT_TEST_DECODING):
            continue
        theirs = compared(recorded(major)[workload.name, run.name], run)
        ours = compared(in_memory(workload, run, major), run)
        if (workload.name, run.name) in EXCEPTIONS:
            assert ours != theirs, f"{run.name} is equal, so it is no exception any more"
        elif ours != theirs:
            pairs_of_lines = zip_longest(ours, theirs, fillvalue="")
            different[run.name] = next((mine[:200], server[:200]) for mine, server in pairs_of_lines if mine != server)
    assert different == {}


@EVERY_MAJOR
def test_the_recordings_have_every_workload_in_every_run(major):
    wanted = {
        (workload.name, run.name)
        for workload, run in pairs(major)
        if run.plugin == "pgoutput" or major not in WITHOUT_TEST_DECODING
    }
    assert set(recorded(major)) == wanted


def test_the_workloads_cover_every_message_of_pgoutput():
    found = Counter(
        chr(data[0])
        for (_, run), rows in recorded(18).items()
        if run in RUNS and RUNS[run].plugin == "pgoutput" and isinstance(rows, list)
        for _, _, data in rows
    )
    assert set(found) == set("BCORYIUDTMSEcAbPKrp")


def test_exceptions_are_of_workloads_and_runs_that_exist_and_have_reasons():
    assert all(workload in WORKLOADS and run in RUNS for workload, run in EXCEPTIONS)
    assert all(EXCEPTIONS.values())
    assert len({workload for workload, _ in EXCEPTIONS}) < 5
