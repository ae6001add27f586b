"""SQLite as a target: one file with one writer."""
