"""What shows a run to people and machines: metrics, health, the dashboard.

::

    supervisor ── snapshots, in memory ──▶ observation ──┬─▶ metrics ──▶ exposition ──▶ /metrics
    sampler ───── publishers, journals ──▶  (one moment) ├─▶ health ───────────────────▶ /livez /readyz /health, status --check
                  every 10 s                             └─▶ dashboard ─────────────────▶ /

- ``sampler`` asks publishers and journals in threads of its own. ``lag`` computes a lag from that.
- ``observation`` is what is known of the run at one moment. To make one needs no connection, no
  file and no lock, so it delays nobody.
- ``metrics`` is the table of all metrics: a line adds one. ``exposition`` writes them in the format
  of Prometheus; ``tools/metrics_page.py`` writes docs/metrics.md.
- ``health`` has the rules that tell a healthy run from others. ``service_manager`` tells systemd.
- ``http_server`` is the server of ``subscriber run --http``; ``web_app`` has its addresses,
  ``dashboard`` what the live pages show, ``lag_history`` the last hour, ``templates`` the pages.
  ``serve_run`` puts all of it together for one run.
- ``subscription_details`` asks target and publisher while a subscription's page is open, or its
  ``cutover_page``; ``page_sources`` are what other pages ask when they are opened:
  ``journal_pages``. Both ask through ``questions``. ``page_templates`` has what all pages share.
- ``admin_commands`` are the commands that a page may give with ``--http-admin``.

The libraries of the extra ``subscriber[http]`` are imported where they are used.
"""
