"""Servers in containers, on a machine whose Docker does not answer."""

from __future__ import annotations

import pytest

from subscriber.testing.servers.open_servers import docker_answers, mariadb_container, postgresql_container


@pytest.fixture
def no_docker(monkeypatch, tmp_path):
    """No Docker daemon listens where the environment says."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")


def test_a_daemon_that_does_not_answer_is_no_error(no_docker):
    assert not docker_answers()


def test_without_docker_there_is_no_server(no_docker):
    assert postgresql_container(18, {"wal_level": "logical"}) is None
    assert mariadb_container({}) is None
