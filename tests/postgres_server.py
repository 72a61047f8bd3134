"""A PostgreSQL server of the tests' own, from Debian's package: `with server() as at: at.sql("SELECT 1")`."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SECRET = "correct horse battery staple"


@dataclass(frozen=True)
class Server:
    """A server that listens on a socket in `folder`, and its database `shop`; the password is `SECRET`."""

    folder: Path
    programs: Path

    @property
    def address(self):
        return f"postgresql://tester@/shop?host={self.folder}"

    def sql(self, text):
        """Run SQL by the server's own client; return the lines that come out, columns with | between."""
        psql = [
            self.programs / "psql",
            "-h",
            self.folder,
            "-U",
            "tester",
            "-d",
            "shop",
            "-qAtX",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        done = subprocess.run(
            [*map(str, psql), "-c", text], capture_output=True, text=True, check=False,
            env={**os.environ, "PGPASSWORD": SECRET},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def cut(self):
        """End all connections but that of who asks; return how many there were."""
        ended = self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gcmf'")
        return len(ended)


@contextmanager
def server():
    """Start a server, and stop it; skip what needs it where there is none, or no driver."""
    pytest.importorskip("adbc_driver_postgresql", reason="needs pip install 'gcmf[postgresql]'")
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    on_path = shutil.which("initdb")
    if not found and on_path is None:
        pytest.skip("needs a PostgreSQL server to start: apt-get install postgresql")
    programs = found[-1].parent if found else Path(on_path).parent
    # A server refuses to run as root; and a path to a socket has 107 bytes at most.
    plain = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder = Path(tempfile.mkdtemp(prefix="gcmf-pg-", dir="/tmp"))
    try:
        secret = folder / "secret"
        secret.write_text(SECRET)
        if plain:
            shutil.chown(folder, "postgres")
            shutil.chown(secret, "postgres")
        folder.chmod(0o755)

        def run(program, *arguments):
            told = [*plain, str(programs / program), "-D", str(folder / "data"), *arguments]
            with (folder / "out").open("ab") as out:
                subprocess.run(told, check=True, stdout=out, stderr=out, cwd="/")

        run("initdb", "-U", "tester", "-A", "scram-sha-256", "--pwfile", str(secret), "--no-sync", "-E", "UTF8")
        settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_connections=20"
        run("pg_ctl", "-w", "-o", settings, "start")
        try:
            at = Server(folder, programs)
            maker = [programs / "createdb", "-h", folder, "-U", "tester", "shop"]
            subprocess.run([*map(str, maker)], check=True, env={**os.environ, "PGPASSWORD": SECRET})
            yield at
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
