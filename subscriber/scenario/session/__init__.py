"""A psql session: how a file is read, what is typed, what psql prints, and what was expected."""
