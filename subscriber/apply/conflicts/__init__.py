"""Conflicts between a change and the rows of the target (rules C18 to C22).

``conflict`` describes a conflict, and decides what becomes of the change; ``conflict_tally`` counts
and logs it. ``collisions`` finds the rows with which a change collides, and ``row_conflicts`` the
rows of a run that do not exist, or that another origin wrote last.
"""
