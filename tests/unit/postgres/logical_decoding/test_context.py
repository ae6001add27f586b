"""Writing: which callbacks may write, in which order, and what is text."""

from __future__ import annotations

import pytest

from subscriber.base.errors import OutputPluginError
from subscriber.postgres.logical_decoding.context import LogicalDecodingContext, OutputPluginCallbacks, ReplicationSlot
from subscriber.postgres.logical_decoding.historic_catalog import Invalidation
from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter, Output


@pytest.fixture
def ctx() -> LogicalDecodingContext:
    made = LogicalDecodingContext(ReplicationSlot("s", "p"), OutputPluginCallbacks(), CollectingWriter())
    made.accept_writes, made.write_location, made.write_xid = True, 120, 700
    return made


def outputs(ctx: LogicalDecodingContext) -> list[Output]:
    assert isinstance(ctx.writer, CollectingWriter)
    return ctx.writer.outputs


def test_the_consumer_gets_the_output_with_its_place(ctx):
    ctx.prepare_write(last_write=False)
    ctx.out += b"data"
    ctx.write(last_write=False)
    assert outputs(ctx) == [Output(120, 700, b"data", last_write=False)]


def test_a_write_without_prepare_write_is_postgresqls_error(ctx):
    """E7."""
    ctx.prepare_write(last_write=True)
    ctx.write(last_write=True)
    with pytest.raises(OutputPluginError) as caught:
        ctx.write(last_write=True)
    assert caught.value.message == "OutputPluginPrepareWrite needs to be called before OutputPluginWrite"
    assert len(outputs(ctx)) == 1


def test_prepare_write_where_nothing_may_be_written_is_postgresqls_error(ctx):
    """E7."""
    ctx.accept_writes = False
    with pytest.raises(OutputPluginError) as caught:
        ctx.prepare_write(last_write=True)
    assert caught.value.message == "writes are only accepted in commit, begin and change callbacks"
    assert caught.value.sqlstate == "XX000"


def test_a_second_prepare_write_discards_what_was_prepared(ctx):
    """E7."""
    ctx.prepare_write(last_write=True)
    ctx.out += b"first"
    ctx.prepare_write(last_write=True)
    ctx.out += b"second"
    ctx.write(last_write=True)
    assert [one.data for one in outputs(ctx)] == [b"second"]


@pytest.mark.parametrize("data", [b"\xff", b"a\0b"])
def test_textual_output_that_is_not_text_is_refused_and_not_written(ctx, data):
    """E10."""
    ctx.options.output_type = "textual"
    ctx.prepare_write(last_write=True)
    ctx.out += data
    with pytest.raises(OutputPluginError) as caught:
        ctx.write(last_write=True)
    assert (caught.value.message, caught.value.sqlstate) == ('invalid byte sequence for encoding "UTF8"', "22021")
    assert not outputs(ctx)


def test_binary_output_may_be_any_bytes(ctx):
    ctx.prepare_write(last_write=True)
    ctx.out += b"\xff\0"
    ctx.write(last_write=True)
    assert outputs(ctx)[0].data == b"\xff\0"


def test_progress_has_the_place_of_the_callback(ctx):
    seen = []
    ctx.writer = type("Progress", (), {"update_progress": lambda _self, *arguments: seen.append(arguments)})()
    ctx.update_progress(skipped_xact=True)
    assert seen == [(120, 700, True)]


def test_every_function_that_was_registered_is_told_what_to_forget(ctx):
    """A24."""
    seen: list[Invalidation] = []
    ctx.register_invalidation_callback(seen.append)
    ctx.register_invalidation_callback(seen.append)
    ctx.invalidate(Invalidation(publications=True))
    assert seen == [Invalidation(publications=True)] * 2


def test_an_origin_that_was_dropped_has_no_name(ctx):
    """A15."""
    ctx.origins[1] = "node"
    assert (ctx.origin_name(1), ctx.origin_name(2)) == ("node", None)
