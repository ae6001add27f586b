"""PostgreSQL as a target. The publisher, which is also PostgreSQL, is another package."""
