"""Private database servers: where they are installed, and how they are started and stopped.

::

    open_servers        gets a server: from the environment, from this machine, or from a container
    installations       finds server programs on this machine
    postgresql_server   PostgreSQL servers: databases, start, stop
    mariadb_server      MariaDB servers: databases, start, stop
    containers          servers in Docker containers
    processes           commands that end with this process
    guard               the program that ends such a command
    fresh_targets       an empty database for a subscriber node

``open_servers`` takes the first server that is available. A server of this machine is started by
``processes`` under ``guard``.

Which server a node of a session gets is decided in :mod:`subscriber.scenario.stage`.
"""
