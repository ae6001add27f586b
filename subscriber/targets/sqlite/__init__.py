"""SQLite as a target: one file, one writer."""
