"""Create the passwords for docker-compose.yml in ``.secrets/``. Existing passwords are kept.

The passwords are random. Only its owner can open the directory. The files in it are readable by all
users, because the user in a container has another user ID.
"""

from __future__ import annotations

import secrets
from pathlib import Path

DIRECTORY = Path(__file__).resolve().parent.parent / ".secrets"


def main() -> None:
    """Write the files. An existing password is kept, because databases already use it."""
    DIRECTORY.mkdir(mode=0o700, exist_ok=True)
    _password("publisher_password")
    _password("http_token")
    target = _password("target_password")
    (DIRECTORY / "target.cnf").write_text(f"[client]\nuser=subscriber\npassword={target}\n")
    (DIRECTORY / "spark-defaults.conf").write_text(
        f"spark.authenticate true\nspark.authenticate.secret {_password('spark_secret')}\n"
    )
    (DIRECTORY / ".gitignore").write_text("*\n")
    for path in DIRECTORY.iterdir():
        path.chmod(0o644)
    print(f"passwords are in {DIRECTORY}")


def _password(name: str) -> str:
    path = DIRECTORY / name
    if not path.exists():
        path.write_text(secrets.token_urlsafe(24))
    return path.read_text()


if __name__ == "__main__":
    main()
