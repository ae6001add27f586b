"""PostgreSQL as pure functions: no connection, no file, no clock."""
