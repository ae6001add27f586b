"""``subscriber run``: what works for as long as subscriptions are enabled.

::

    supervisor ──a worker a subscription──▶ worker ──┬─▶ receiver_handle ──▶ receiver_process (walreceiver, a process)
                                                     ├─▶ pipeline's query (Spark) with catalog_rules
                                                     └─▶ tablesync: copies tables and hands them over

``subscription_status`` is the picture that ``subscriber status`` prints, ``once`` says when ``run --once`` is done.
"""
