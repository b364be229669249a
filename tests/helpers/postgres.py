"""A PostgreSQL server of the test run's own: its own folder, its own socket, no network.

It runs as an unprivileged user even if the tests run as root. Everything waits for what it says or
for its processes to end, never for time to pass.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

import psycopg

from helpers.tools import path_of

NOBODY = 65534
READY = "ready to accept connections"
SETTINGS = {
    "listen_addresses": "",
    # The tests kill processes, never the machine: what the system was given is not lost.
    "fsync": "off",
    "max_connections": "40",
    "shared_buffers": "16MB",
    "autovacuum": "off",
    "lc_messages": "C",
}

KEEP = """
DO $$ DECLARE steps text; BEGIN
    CREATE SCHEMA kept;
    -- Without triggers: rows may refer to those that come later.
    SELECT 'SET LOCAL session_replication_role = replica;' || string_agg(
        format('DELETE FROM public.%1$I; INSERT INTO public.%1$I TABLE kept.%1$I;', tablename), ''
    ) INTO steps FROM pg_tables WHERE schemaname = 'public';
    SELECT concat(steps, string_agg(format(
        'PERFORM setval(%L, %s, %L);', format('public.%I', sequencename),
        coalesce(last_value, 1), last_value IS NOT NULL
    ), '')) INTO steps FROM pg_sequences WHERE schemaname = 'public';
    EXECUTE (
        SELECT string_agg(format('CREATE TABLE kept.%1$I AS TABLE public.%1$I', tablename), ';')
        FROM pg_tables WHERE schemaname = 'public'
    );
    EXECUTE format('CREATE PROCEDURE kept.restore() LANGUAGE plpgsql AS %L', format(
        'BEGIN %s END', steps
    ));
END $$
"""
RESTORE = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
CALL kept.restore()
"""


class Postgres:
    """A server; `with` starts it, stops it and removes its folder."""

    def __init__(self) -> None:
        program = path_of("postgresql")
        assert program is not None
        self._binaries = Path(program).resolve().parent
        # The system's folder for temporary files: a socket's path must be short, and the
        # server's user must be able to reach it.
        self._folder = Path(tempfile.mkdtemp(prefix="deepsea-pg-", dir="/tmp"))
        self._folder.chmod(0o700)
        # By a program: Popen's own `user` makes it fork, which a process with gRPC's threads must
        # not; without it, it is vfork.
        self._as_user: list[str] = []
        if os.getuid() == 0:
            os.chown(self._folder, NOBODY, NOBODY)
            who = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            self._as_user = ["setpriv", *who, "--"]
        self._databases = 0
        self._connections: dict[str, psycopg.Connection] = {}
        self._log: list[str] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Postgres:
        try:
            self._run(
                "initdb",
                "--no-sync",
                "--auth=trust",
                "--username=ladder",
                "--encoding=UTF8",
                "--locale=C",
                "--pgdata",
                str(self._data),
            )
            self.start()
        except BaseException:
            shutil.rmtree(self._folder)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def url(self, database: str) -> str:
        """The URL of one of the server's databases."""
        return f"postgresql://ladder@/{database}?host={self._folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run a statement, in the common database if no other is named."""
        # One connection for all tests: a new one costs the server more than most statements.
        connection = self._connections.get(database)
        if connection is None:
            connection = self._connections[database] = psycopg.connect(
                self.url(database), autocommit=True, prepare_threshold=None
            )
        connection.execute(statement.encode())

    def new_database(self, template: str = "template1") -> str:
        """The name of a new database: an empty one, or like one that nobody is connected to."""
        self._databases += 1
        name = f"ladder{self._databases}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def keep(self, database: str) -> None:
        """Keep a copy of the rows of a database in it, for `restore`."""
        self.execute(KEEP, database)

    def restore(self, database: str) -> None:
        """Give a database the rows again that were kept, whoever uses it.

        Faster than a new database for each test; its tables must be those that it had.
        """
        self.execute(RESTORE, database)

    def start(self) -> None:
        """Start the server, and wait until it says that it is ready."""
        settings = SETTINGS | {"unix_socket_directories": str(self._folder)}
        words = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
        # A test run that is killed takes its server with it.
        setpriv = shutil.which("setpriv")
        leash = [setpriv, "--pdeathsig", "QUIT", "--"] if setpriv else []
        program = [*self._as_user, *leash, str(self._binaries / "postgres")]
        process = subprocess.Popen(
            [*program, "-D", str(self._data), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            start_new_session=True,
        )
        assert process.stderr is not None
        for line in process.stderr:
            self._log.append(line)
            if READY in line:
                break
        else:
            process.wait()
            process.stderr.close()
            raise RuntimeError("PostgreSQL did not start:\n" + "".join(self._log[-20:]))
        self._process = process
        # Somebody has to read on, or the server stops when the pipe is full.
        threading.Thread(target=self._drain, args=(process,), daemon=True).start()

    def kill(self) -> None:
        """Kill the postmaster with SIGKILL, and wait until the last of its processes is gone."""
        while self._connections:
            self._connections.popitem()[1].close()
        process, self._process = self._process, None
        if process is None:
            return
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        descriptors = []
        for child in children:
            try:
                descriptors.append(os.pidfd_open(int(child)))
            except ProcessLookupError:
                continue
        process.send_signal(signal.SIGKILL)
        process.wait()
        for descriptor in descriptors:
            select.select([descriptor], [], [])
            os.close(descriptor)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _drain(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            self._log.extend(process.stderr)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [*self._as_user, str(self._binaries / program), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self._folder,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{done.stdout}{done.stderr}")
