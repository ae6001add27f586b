"""Removes consumers from the journals if their subscription was dropped or has another slot now."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from subscriber import catalog
from subscriber.catalog import Subscription
from subscriber.errors import SubscriberError
from subscriber.positions.consumers import collect_consumers
from subscriber.settings import Settings
from subscriber.targets import Target

logger = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 60.0
"""The interval between two attempts if a journal cannot be reached."""


class ConsumerCollection:
    """Removes the consumers of a target that are no longer needed, so that the journals can be
    trimmed.
    """

    def __init__(self, target: Target, settings: Settings) -> None:
        self._target = target
        self._settings = settings
        self._collected: object = None
        self._again = 0.0

    def collect(self, subscriptions: Sequence[Subscription]) -> None:
        """Remove the unneeded consumers if subscriptions were created, dropped or given another
        slot. Journals that cannot be reached now are tried again later.
        """
        slots = [(one.subid, one.system_identifier, one.slot_name, one.slot_adopted) for one in subscriptions]
        if slots == self._collected and time.monotonic() < self._again:
            return
        try:
            with self._target.reporting(), self._target.engine.connect() as connection:
                identifier = catalog.target_identifier(connection)
                released = [(one.system_identifier, one.slot) for one in catalog.released_slots(connection)]
            removed, complete = collect_consumers(self._settings.journal, identifier, subscriptions, keep=released)
        except SubscriberError as error:
            logger.debug("consumers of dropped subscriptions could not be removed from the journals: %s", error.message)
            removed, complete = [], False
        self._collected = slots
        self._again = float("inf") if complete else time.monotonic() + _AGAIN_SECONDS
        for file in removed:
            logger.info('removed consumer "%s" of the journal: its subscription was dropped, or has another slot', file)
