"""Passwords and certificates are replaced while one ``subscriber run`` works and a load writes:
with the first half of a rotation no new connection is possible, and with the second the run goes on
by itself.

The tests of this module follow each other on one replication; each begins and ends with equal
tables.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from subscriber.testing.servers.open_servers import PostgreSQLServer, find_postgresql
from subscriber.testing.servers.processes import server_user
from tests.conftest import server_or_skip
from tests.crash.conftest import caught_up_load, replicating
from tests.crash.harness import wait_until

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


class Authority:
    """A certification authority; ``certificate`` is its own certificate, in PEM format."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._certificate, self._key = folder / f"{name}.crt", folder / f"{name}.key"
        _openssl(
            "req", "-x509", *_KEY, "-subj", f"/CN={name}", "-keyout", self._key, "-out", self._certificate, "-days", 9
        )

    @property
    def certificate(self) -> str:
        return self._certificate.read_text()

    def sign(self, common_name: str) -> tuple[str, str]:
        """A new certificate for 127.0.0.1 and this name, and its key."""
        request, key, certificate, names = (self._folder / f"new.{end}" for end in ("csr", "key", "crt", "names"))
        names.write_text("subjectAltName=IP:127.0.0.1\n")
        _openssl("req", "-new", *_KEY, "-subj", f"/CN={common_name}", "-keyout", key, "-out", request)
        signing = ("-CA", self._certificate, "-CAkey", self._key, "-CAcreateserial", "-days", 9, "-extfile", names)
        _openssl("x509", "-req", "-in", request, *signing, "-out", certificate)
        return certificate.read_text(), key.read_text()


def private(path: Path, text: str) -> None:
    """Write a file that only its owner may read. Its owner stays the same if it exists."""
    path.touch(0o600)
    os.chmod(path, 0o600)
    path.write_text(text)


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, stdin=subprocess.DEVNULL)


NAME = "rotations"
ROLE = "replicator"


class Sides:
    """The files and passwords of both sides: a server that demands TLS with a certificate of the
    client, and a password; and the client, which verifies the server.
    """

    def __init__(self, server, folder):
        self.server = server
        self.folder = folder
        self.first, self.second = Authority(folder, "first"), Authority(folder, "second")
        self.sign_server(self.first)
        self.trust_clients_of(self.first)
        self.sign_client(self.first)
        self.trust(self.first)
        self.passfile = folder / "pgpass"

    @property
    def parameters(self):
        return {
            "user": ROLE,
            "passfile": str(self.passfile),
            "sslmode": "verify-full",
            "sslrootcert": str(self.root),
            "sslcert": str(self.folder / "client.crt"),
            "sslkey": str(self.folder / "client.key"),
        }

    @property
    def root(self):
        return self.folder / "root.crt"

    def sign_server(self, authority):
        for name, text in zip(("server.crt", "server.key"), authority.sign("publisher"), strict=True):
            self._write_at_server(name, text)

    def trust_clients_of(self, *authorities):
        self._write_at_server("clients.crt", "".join(one.certificate for one in authorities))

    def sign_client(self, authority):
        for name, text in zip(("client.crt", "client.key"), authority.sign(ROLE), strict=True):
            private(self.folder / name, text)

    def trust(self, *authorities):
        self.root.write_text("".join(one.certificate for one in authorities))

    def set_at_server(self, password):
        self.server.execute(f"ALTER ROLE {ROLE} PASSWORD '{password}'")

    def set_in_passfile(self, password):
        private(self.passfile, f"*:*:*:{ROLE}:{password}\n")

    def _write_at_server(self, name, text):
        path = self.server.data_directory / name
        private(path, text)
        if user := server_user():
            os.chown(path, user.uid, user.gid)
        if self.server.running:
            self.server.execute("SELECT pg_reload_conf()")


@pytest.fixture(scope="module")
def sides(tmp_path_factory):
    settings = {"ssl": "on", "ssl_ca_file": "clients.crt"}
    # The programs of Debian have TLS; those of the wheel do not.
    server = server_or_skip(lambda: PostgreSQLServer(find_postgresql(15), settings))
    sides = Sides(server, tmp_path_factory.mktemp(NAME))
    hba = server.data_directory / "pg_hba.conf"
    rule = "127.0.0.1/32 scram-sha-256 clientcert=verify-full\n"
    hba.write_text(f"hostssl all {ROLE} {rule}host all {ROLE} 127.0.0.1/32 reject\n{hba.read_text()}")
    with server:
        server.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD 's3cret-0'")
        sides.set_in_passfile("s3cret-0")
        yield sides


@pytest.fixture(scope="module")
def replication(sides):
    with replicating(sides.server, sides.folder, NAME, parameters=sides.parameters) as replication:
        yield replication


@pytest.fixture(scope="module")
def load(replication):
    with caught_up_load(replication, seed=29) as load:
        yield load


@pytest.fixture
def refused(sides, replication, load, supervisor):
    """Cuts the connection, and waits until another one has failed and the load has written; ends
    after the other half of the rotation, when everything has arrived.
    """

    def cut(reason):
        before, written = replication.runner.said().count(reason), load.transactions
        sides.server.execute(
            f"SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{NAME}'"
        )
        wait_until(
            lambda: replication.runner.said().count(reason) > before,
            f"the log to say: {reason}",
            runner=replication.runner,
        )
        wait_until(lambda: load.transactions > written + 5, "the load to write")

    yield cut
    replication.settle(load)
    assert "s3cret" not in replication.runner.said()


def test_a_password_may_be_changed_at_the_server_first(sides, refused):
    sides.set_at_server("s3cret-1")
    refused("password authentication failed")
    sides.set_in_passfile("s3cret-1")


def test_a_password_may_be_changed_in_the_password_file_first(sides, refused):
    sides.set_in_passfile("s3cret-2")
    refused("password authentication failed")
    sides.set_at_server("s3cret-2")


def test_a_password_file_that_is_missing_for_a_while_is_read_when_it_is_there(sides, refused):
    sides.passfile.unlink()
    refused("no password supplied")
    sides.set_in_passfile("s3cret-2")


def test_the_server_s_certificate_may_get_another_authority(sides, refused):
    sides.sign_server(sides.second)
    refused("certificate verify failed")
    sides.trust(sides.second)


def test_the_file_of_authorities_may_be_missing_for_a_while(sides, refused):
    sides.root.unlink()
    refused(f'root certificate file "{sides.root}" does not exist')
    sides.trust(sides.second)


def test_the_client_s_certificate_may_get_an_authority_that_the_server_learns_later(sides, refused):
    sides.sign_client(sides.second)
    refused("unknown ca")
    sides.trust_clients_of(sides.first, sides.second)


def test_a_key_that_others_may_read_is_named(sides, refused):
    key = sides.folder / "client.key"
    sides.sign_client(sides.first)
    key.chmod(0o644)
    refused(f'private key file "{key}" has group or world access')
    key.chmod(0o600)


def test_a_key_that_does_not_belong_to_the_certificate_is_named(sides, refused):
    """As in the moment between the replacement of the one and of the other."""
    certificate, key = sides.first.sign(ROLE)
    private(sides.folder / "client.key", key)
    refused("key values mismatch")
    private(sides.folder / "client.crt", certificate)
