"""Where a subscription starts: proof that journal, publisher and target agree on a position before
one is adopted (slot_after_disk).

``slot_position`` finds the position of a slot that is new, taken over or continued; ``consumers``
are the readers of a journal, which keep entries from being trimmed. The positions themselves are
the journal's, the publisher's and the target's.
"""
