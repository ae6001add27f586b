#!/bin/sh
# libpq ignores a password file that others may read, and a mounted secret belongs to somebody else:
# take a private copy before the command starts.
set -eu
if [ -r /run/secrets/pgpass ]; then
    install -m 0600 /run/secrets/pgpass "$HOME/.pgpass"
fi
exec "$@"
