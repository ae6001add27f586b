"""Conflicts between a change and the rows of the target (rules C18 to C22).

``conflict`` describes a conflict, ``conflict_policy`` decides what becomes of the change,
``conflict_tally`` counts and logs it. ``collisions`` finds the rows with which a change collides,
``origins`` who wrote a row last, and ``row_conflicts`` looks for both in a run of changes.
``failure`` is what an error carries: its place in the transaction, and its conflict.
"""
