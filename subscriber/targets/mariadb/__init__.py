"""MariaDB and MySQL as targets, through PyMySQL. They do not record the last writer of a row."""
