"""Every callback: its place in the stream, its error context, and PostgreSQL's error if it is
missing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from subscriber.base.errors import OutputCallbackMissing, OutputPluginError, OutputPluginFailed, TransactionAborted
from subscriber.postgres.logical_decoding.callbacks import CallbackWrappers, callbacks_of
from subscriber.postgres.logical_decoding.context import CALLBACKS, LogicalDecodingContext, ReplicationSlot
from subscriber.postgres.logical_decoding.reorder_txn import Action, ReorderBufferChange, ReorderBufferTXN
from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter
from tests.output_plugins import PLAIN, T, recording_plugin, row

TXN = ReorderBufferTXN(700, 0x100, final_lsn=0x300, end_lsn=0x308)
PREPARED = ReorderBufferTXN(700, 0x100, is_prepared=True)
CHANGE = ReorderBufferChange(Action.INSERT, 0x200, TXN, new_tuple=row("1"))
NO_WRITE = ("startup", "shutdown", "filter_prepare", "filter_by_origin")

CALLS: dict[str, tuple[Callable[[CallbackWrappers], object], int, int]] = {
    "startup": (lambda call: call.startup(is_init=False), 0, 0),
    "shutdown": (lambda call: call.shutdown(), 0, 0),
    "filter_prepare": (lambda call: call.filter_prepare(700, "g"), 0, 0),
    "filter_by_origin": (lambda call: call.filter_by_origin(1), 0, 0),
    "begin": (lambda call: call.begin(TXN), 0x100, 0x100),
    "begin_prepare": (lambda call: call.begin(PREPARED), 0x100, 0x100),
    "change": (lambda call: call.change(TXN, T, CHANGE, streaming=False), 0x200, 0x200),
    "truncate": (lambda call: call.truncate(TXN, (T,), CHANGE, streaming=False), 0x200, 0x200),
    "message": (lambda call: call.message(TXN, 0x210, True, "p", b"m", streaming=False), 0x210, 0x210),
    "commit": (lambda call: call.at_end("commit", TXN, 0x300), 0x300, 0x308),
    "prepare": (lambda call: call.at_end("prepare", TXN, 0x300), 0x300, 0x308),
    "commit_prepared": (lambda call: call.at_end("commit_prepared", TXN, 0x300), 0x300, 0x308),
    "rollback_prepared": (lambda call: call.at_end("rollback_prepared", TXN, 0x250, 7), 0x300, 0x308),
    "stream_start": (lambda call: call.stream_start(TXN, 0x110), 0x110, 0x110),
    "stream_stop": (lambda call: call.stream_stop(TXN, 0x220), 0x220, 0x220),
    "stream_abort": (lambda call: call.stream_abort(TXN, 0x308), 0x308, 0x308),
    "stream_commit": (lambda call: call.at_end("stream_commit", TXN, 0x300), 0x300, 0x308),
    "stream_prepare": (lambda call: call.at_end("stream_prepare", TXN, 0x300), 0x300, 0x308),
    "stream_change": (lambda call: call.change(TXN, T, CHANGE, streaming=True), 0x200, 0x200),
    "stream_truncate": (lambda call: call.truncate(TXN, (T,), CHANGE, streaming=True), 0x200, 0x200),
    "stream_message": (lambda call: call.message(TXN, 0x210, True, "p", b"m", streaming=True), 0x210, 0x210),
}
"""For each callback: the call, the LSN of the error context, the LSN of the output."""

MISSING = {
    **dict.fromkeys(
        ("stream_start", "stream_stop", "stream_abort", "stream_commit", "stream_change"),
        "logical streaming requires a {}_cb callback",
    ),
    **dict.fromkeys(
        ("begin_prepare", "prepare", "commit_prepared", "rollback_prepared"),
        "logical replication at prepare time requires a {}_cb callback",
    ),
    "stream_prepare": "logical streaming at prepare time requires a {}_cb callback",
}


def wrapped(plugin: object) -> tuple[LogicalDecodingContext, CallbackWrappers]:
    ctx = LogicalDecodingContext(
        ReplicationSlot("slot", "plugin"), callbacks_of(plugin), CollectingWriter(), twophase=True
    )
    return ctx, CallbackWrappers(ctx)


def raising(name: str, error: Exception) -> CallbackWrappers:
    def fail(*_arguments):
        raise error

    return wrapped(recording_plugin(**{name: fail})[0])[1]


def test_every_callback_has_its_call_here():
    assert set(CALLS) == set(CALLBACKS)


@pytest.mark.parametrize("name", CALLBACKS)
def test_every_callback_is_called_with_its_place_in_the_stream(name):
    """E8."""
    plugin, recorder = recording_plugin()
    ctx, call = wrapped(plugin)
    run, _, location = CALLS[name]
    run(call)
    assert [one.split()[0] for one in recorder.calls] == [name]
    assert recorder.locations == ([] if name in NO_WRITE else [(name, location, 700)])
    assert not ctx.accept_writes


@pytest.mark.parametrize("name", CALLBACKS)
def test_an_error_has_the_name_of_the_callback_and_its_position(name):
    """E9."""
    run, report, _ = CALLS[name]
    with pytest.raises(OutputPluginError) as caught:
        run(raising(name, OutputPluginError("wrong", context="inner")))
    place = f", associated LSN 0/{report:X}" if report else ""
    assert caught.value.context == f'inner\nslot "slot", output plugin "plugin", in the {name} callback{place}'


def test_an_exception_of_the_plugin_becomes_an_error_without_its_text():
    """names_are_data."""
    cause = ValueError("secret")
    with pytest.raises(OutputPluginFailed) as caught:
        raising("change", cause).change(TXN, T, CHANGE, streaming=False)
    assert caught.value.message == 'callback "change" of output plugin "plugin" failed: ValueError'
    assert caught.value.sqlstate == "38000"
    assert caught.value.__cause__ is cause
    assert "secret" not in caught.value.report()


def test_an_error_keeps_its_class_and_its_attributes():
    with pytest.raises(TransactionAborted) as caught:
        raising("begin", TransactionAborted("gone", detail="why")).begin(TXN)
    assert (caught.value.message, caught.value.detail, caught.value.sqlstate) == ("gone", "why", "40000")


@pytest.mark.parametrize("name", [name for name in CALLBACKS if name not in PLAIN])
def test_a_callback_that_is_missing_is_an_error_or_is_left_out(name):
    """E2, E3, E4."""
    run = CALLS[name][0]
    _, call = wrapped(recording_plugin(without=[name])[0])
    if name not in MISSING:
        assert not run(call)
        return
    with pytest.raises(OutputCallbackMissing) as caught:
        run(call)
    assert caught.value.message == MISSING[name].format(name)
    assert caught.value.sqlstate == "55000"


@pytest.mark.parametrize("name", NO_WRITE)
def test_where_there_is_no_place_in_the_stream_nothing_may_be_written(name):
    """E7."""
    plugin, _ = recording_plugin(**{name: lambda ctx, *_: ctx.prepare_write(last_write=True)})
    with pytest.raises(OutputPluginError, match="writes are only accepted in commit, begin and change callbacks"):
        CALLS[name][0](wrapped(plugin)[1])


def test_a_message_outside_of_a_transaction_has_no_transaction_number():
    """E8."""
    plugin, recorder = recording_plugin()
    wrapped(plugin)[1].message(None, 0x210, False, "p", b"m", streaming=False)
    assert recorder.locations == [("message", 0x210, 0)]


@pytest.mark.parametrize(
    ("twophase", "answer", "filtered"), [(False, False, True), (True, True, True), (True, False, False)]
)
def test_a_transaction_is_filtered_at_prepare_if_two_phase_is_off_or_the_plugin_says_so(twophase, answer, filtered):
    """E15."""
    ctx, call = wrapped(recording_plugin(filter_prepare=lambda *_: answer)[0])
    ctx.twophase = twophase
    assert call.filter_prepare(700, "g") is filtered


@pytest.mark.parametrize("name", CALLBACKS)
def test_the_plugin_is_told_whether_a_callback_ends_a_transaction(name):
    seen = []
    plugin, _ = recording_plugin(**{name: lambda ctx, *_: seen.append(ctx.end_xact)})
    CALLS[name][0](wrapped(plugin)[1])
    ends = name in {"commit", "stream_abort"} or name.endswith(("prepare", "_prepared", "_commit"))
    assert seen == [ends and name not in {"begin_prepare", "filter_prepare"}]
