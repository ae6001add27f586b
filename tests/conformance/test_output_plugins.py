"""The recordings of output plugins are what the servers of today write.

The workloads run again on each version. What comes out, with canonical numbers, equals the
recording, which ``tests/unit/postgres/logical_decoding/test_recorded_output.py`` compares with our
own plugins. A server without test_decoding is asked for pgoutput only. The server has no
autovacuum: see `PUBLISHER_SETTINGS`.
"""

from __future__ import annotations

import pytest

from tests.recordings.record_output_plugins import has_plugin, record, recorded
from tests.workloads.canonical import canonical
from tests.workloads.library import WORKLOADS, pairs


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_a_server_writes_what_was_recorded(postgresql, workload):
    major = postgresql.major
    if workload.since > major:
        pytest.skip(f"the workload needs PostgreSQL {workload.since}")
    plugins = {plugin for plugin in ("pgoutput", "test_decoding") if has_plugin(postgresql, plugin)}
    runs = [run for one, run in pairs(major) if one is workload and run.plugin in plugins]
    assert any(run.plugin == "pgoutput" for run in runs)
    again = record(postgresql, workload, runs)
    for run in runs:
        old, new = recorded(major)[workload.name, run.name], again[run.name]
        if isinstance(old, tuple) or isinstance(new, tuple):
            assert new == old, run.name
        else:
            assert canonical(new, run) == canonical(old, run), run.name
