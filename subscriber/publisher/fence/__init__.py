"""A cutover at the publisher: writes stop, and the way back from the target.

``read_only`` fences the publisher's database, ``open_transactions`` finds who may still write and
who is waited for, ``reverse_replication`` is the way back, with what may prevent it.
"""
