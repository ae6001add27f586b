"""DuckDB as a target: rows are loaded and found by Arrow tables."""
