"""The transaction that the user has asked to skip (rules C40, C41)."""

from __future__ import annotations

import logging

from subscriber.lsn import INVALID_LSN, LSN, format_lsn

logger = logging.getLogger(__name__)


class SkipLSN:
    """The LSN of ``ALTER SUBSCRIPTION … SKIP (lsn = …)`` during one batch.

    Args:
        subscription: the subscription's name, for messages.
        lsn: the skip LSN in the catalog; 0/0 means none.

    Attributes:
        lsn: the skip LSN; 0/0 after it was cleared.
    """

    def __init__(self, subscription: str, lsn: LSN) -> None:
        self.lsn = lsn
        self._subscription = subscription

    def covers(self, final_lsn: LSN) -> bool:
        """Whether this transaction is the one to skip."""
        return self.lsn != INVALID_LSN and final_lsn == self.lsn

    def begin(self, final_lsn: LSN) -> None:
        """Log that a transaction is skipped, if it is the one to skip."""
        if self.covers(final_lsn):
            logger.info("logical replication starts skipping transaction at LSN %s", format_lsn(final_lsn))

    def use_up(self, final_lsn: LSN, *, skipped: bool) -> None:
        """Clear the skip LSN. Its transaction clears it, and so does any other transaction that is
        not empty (rule C41).
        """
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
