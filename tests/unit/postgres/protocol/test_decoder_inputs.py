"""Inputs of the decoders, each the first with its outcome, are read as they were recorded."""

from __future__ import annotations

from collections import defaultdict

import pytest

from subscriber.postgres.protocol.messages import Message
from tests.decoder_inputs import DECODERS, outcome, recorded

INPUTS: dict[str, list[tuple[bytes, str]]] = defaultdict(list)
for one, given, result in recorded():
    INPUTS[one].append((given, result))


@pytest.mark.parametrize("decoder", sorted(INPUTS))
def test_a_recorded_input_has_its_outcome(decoder):
    """A message that is accepted encodes to the same bytes."""
    assert [(data.hex(), outcome(decoder, data)) for data, _ in INPUTS[decoder]] == [
        (data.hex(), result) for data, result in INPUTS[decoder]
    ]


def test_every_decoder_and_every_kind_of_message_has_an_input():
    assert set(INPUTS) == set(DECODERS)
    found = {result for decoder in INPUTS if decoder.startswith("message") for _, result in INPUTS[decoder]}
    assert {kind.__name__ for kind in Message.__args__} <= found
