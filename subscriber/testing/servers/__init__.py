"""Private database servers: where they are installed, and how they are started and stopped.

::

    open_servers        gets a server: from the environment, this machine, or a container; empty databases on it
    postgresql_server   PostgreSQL servers: databases, start, stop
    mariadb_server      MariaDB servers: databases, start, stop
    seekdb_server       a server of OceanBase seekdb
    firebird_database   empty databases of Firebird, embedded
    processes           installed server programs, and commands that end with this process
    guard               the program that ends such a command
"""
