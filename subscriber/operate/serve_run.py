"""Serves one run: its samples, its history and its pages, as long as it lasts; before that, the
probes of a standby.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from subscriber.operate.dashboard import dashboard_routes
from subscriber.operate.http_server import serving
from subscriber.operate.lag_history import History
from subscriber.operate.observation import RunObservation, observe
from subscriber.operate.page_sources import PageSources
from subscriber.operate.sampler import Sampler
from subscriber.operate.service_manager import is_ready
from subscriber.operate.web_app import Served, standby_app, web_app
from subscriber.worker.supervisor import Supervisor


@contextlib.contextmanager
def serve_run(
    supervisor: Supervisor, sources: PageSources, *, address: tuple[str, int], token: str | None
) -> Iterator[int]:
    """Serve while the block runs; gives the port."""
    settings = sources.settings
    history = History()
    sampler = Sampler(supervisor, settings, on_sample=lambda: history.record(now()))

    def now() -> RunObservation:
        return observe(supervisor, sampler.samples)

    served = Served(now, lambda: is_ready(supervisor), settings.metrics_tables, token)
    app = web_app(served, dashboard_routes(served, history, sources))
    with sampler.running(), serving(app, *address) as port:
        yield port


@contextlib.contextmanager
def serve_standby(address: tuple[str, int], token: str | None) -> Iterator[int]:
    """Answer the probes of a run that waits for the run lock: it is alive, and not ready."""
    with serving(standby_app(token), *address) as port:
        yield port
