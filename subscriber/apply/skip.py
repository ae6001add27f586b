"""The transaction that the user has asked to leave out, until it is used up (rules C40, C41)."""

from __future__ import annotations

import logging

from subscriber.lsn import INVALID_LSN, LSN, format_lsn

logger = logging.getLogger(__name__)


class SkipLSN:
    """``ALTER SUBSCRIPTION … SKIP (lsn = …)`` as one batch meets it.

    Args:
        subscription: its name, for messages.
        lsn: what the catalog says; 0/0 is none.

    Attributes:
        lsn: what is left of it; 0/0 once it is used up.
    """

    def __init__(self, subscription: str, lsn: LSN) -> None:
        self.lsn = lsn
        self._subscription = subscription

    def covers(self, final_lsn: LSN) -> bool:
        """Whether this transaction is the one."""
        return self.lsn != INVALID_LSN and final_lsn == self.lsn

    def begin(self, final_lsn: LSN) -> None:
        """A transaction begins: say so if it is the one."""
        if self.covers(final_lsn):
            logger.info("logical replication starts skipping transaction at LSN %s", format_lsn(final_lsn))

    def use_up(self, final_lsn: LSN, *, skipped: bool) -> None:
        """It is used up by its transaction, and by any other that is not empty (rule C41)."""
        if self.lsn == INVALID_LSN:
            return
        if skipped:
            logger.info("logical replication completed skipping transaction at LSN %s", format_lsn(self.lsn))
        else:
            logger.warning(
                'skip-LSN of subscription "%s" cleared: a transaction finished at %s, which did not match skip-LSN %s',
                self._subscription,
                format_lsn(final_lsn),
                format_lsn(self.lsn),
            )
        self.lsn = INVALID_LSN
