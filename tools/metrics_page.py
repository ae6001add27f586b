"""Generates the page ``docs/metrics.md`` (``make docs``) from the table of metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from subscriber.operate.metrics import METRICS, RECEIVER_METRICS, RUN_METRICS, Kind, Labels

_BEFORE: Final = """\
# Metrics

`subscriber run --http 127.0.0.1:9187` serves these metrics for Prometheus at `/metrics` ([operating](operating.md#the-http-server)).
This page is made from the code.

- A scrape reads memory only. It opens no connection and waits for no batch. Publishers and journals are asked every 10 seconds by
  threads of their own.
- A value that is not known is absent. Nothing keeps an old value: the lag is computed at the scrape, and is 0 only if it is proven
  that the target has everything.
- The series of a subscription or a copy that is gone vanish.
- Counters begin at 0 when the worker of a subscription begins: at the start of `subscriber run`, and after a command that changes
  the subscription.
- Each subscription has up to 200 tables in `subscriber_rows_total` (`SUBSCRIBER_METRICS_TABLES`). The rows of all others have
  `table="other"` and an empty schema.
- No metric has a row's value. Labels have the names of subscriptions, slots, publications and tables.

"""
_OF_RECEIVER: Final = """
## Of `subscriber receive`

`subscriber receive --http 127.0.0.1:9187` serves these metrics of its slot. A
[named consumer](spark.md#receive-without-a-target) that is far behind holds the journal: watch `subscriber_journal_consumer_lag_bytes`.

"""
_AFTER: Final = """
`process_*` and `python_info` describe the process of `subscriber run` or `subscriber receive`. They come from the library prometheus-client.

## Reasons for an exact batch

| `reason` | The batch was applied in the publisher's order because |
|---|---|
| `order_matters` | a reordered attempt has failed, or did not find a row |
| `failed_batch` | a part of it was applied before a change that cannot be applied |
| `skip` | a transaction is to be skipped |
| `prepared_transaction` | it has messages of prepared transactions |
| `replaced_values` | values may have to be replaced by NULL |
"""


def metrics_page() -> str:
    own = _table((one.name, one.kind, ("subscription", *one.labels), one.help) for one in METRICS)
    run = _table((one.name, one.kind, (), one.help) for one in RUN_METRICS)
    receiver = _table((one.name, one.kind, ("slot", *one.labels), one.help) for one in RECEIVER_METRICS)
    return "".join(
        [
            *(_BEFORE, "## Of each subscription\n\n", *own, "\n## Of the run\n\n", *run),
            *(_OF_RECEIVER, *receiver, _AFTER),
        ]
    )


def _table(metrics: Iterator[tuple[str, Kind, Labels, str]]) -> Iterator[str]:
    yield "| Metric | Type | Labels | Meaning |\n|---|---|---|---|\n"
    for name, kind, labels, text in metrics:
        named = ", ".join(f"`{label}`" for label in labels)
        yield f"| `{name}{'_info' if kind == 'info' else ''}` | {kind} | {named} | {text} |\n"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
