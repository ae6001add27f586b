"""Changes into one target transaction, progress included (section C of the rules).

Read :mod:`~subscriber.protocol.changes` first: it is the contract with the stage before. Then
:mod:`~subscriber.apply.exact`, the definition of correct; it leans on ``relations`` (which table),
``identity`` (which row), ``statements`` (which SQL), ``transactions`` (which changes belong
together), ``conflict`` and ``conflict_tally`` (what is said and counted of conflicts; ``examine``
and ``collisions`` find out about them, ``origins`` about rows of others). What it writes beside the
data, the progress first, are tables of :mod:`subscriber.catalog`.
"""
