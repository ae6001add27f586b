"""MariaDB and MySQL as targets, through PyMySQL."""
