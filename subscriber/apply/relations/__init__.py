"""The target's table of each relation of the publisher, and its columns: ``target_relations`` finds
them, ``missing_columns`` words what the table lacks, and ``follow_schema_changes`` adds and renames
columns if the subscription asks for it.
"""
