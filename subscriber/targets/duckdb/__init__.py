"""DuckDB as a target: one file, which one process at a time has open."""
