"""The databases that a session talks to: a PostgreSQL server's, or a target of ours behind a
PostgreSQL mirror.
"""
