"""Changes into one target transaction, progress included (section C of the rules).

Read :mod:`~subscriber.protocol.changes` first: it is the contract with the stage before. Then
:mod:`~subscriber.apply.exact`, the definition of correct; it leans on ``relations`` (which table),
``identity`` (which row), ``statements`` (which SQL), ``transactions`` (which changes belong
together), ``conflict`` and ``conflict_log`` (what is said, counted and kept of conflicts; ``examine`` and
``collisions`` find out about them, ``origins`` about rows of others) and ``progress`` (what has been applied).
"""
