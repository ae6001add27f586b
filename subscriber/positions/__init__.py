"""The position at which a subscription starts: it is used only with proof that journal, publisher
and target agree on it (invariant slot_after_disk).

- ``slot_position`` determines the position of a slot that is new, taken over or continued.
- ``consumers`` maintains a subscription's consumers in the journal, which keep entries from being
  trimmed.

A worker first determines the slot's position, and then moves its consumers while it applies. The
positions themselves are stored elsewhere: the received LSN in :mod:`subscriber.journal`, the
applied LSN in :mod:`subscriber.catalog`, and the confirmed position at the publisher.
"""
