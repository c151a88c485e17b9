# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of Ansible's commands, each in a separate process that has the large packages already.

To import SQLAlchemy takes a task longer than its work, and every task is a process. So a server,
one for each process of tests, imports the packages below once and forks for each run. Nothing of
Ansible or of this collection is imported before a run has its own environment, folder and
configuration.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

PACKAGES = (
    "alembic.command",
    "alembic.operations",
    "alembic.runtime.migration",
    "cryptography.hazmat.backends",
    "jinja2.nativetypes",
    "os_resource_classes",
    "os_traits",
    "packaging.version",
    "psycopg",
    "resolvelib",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "yaml",
)


# ---------------------------------------------------------------- the server


def _serve(address: str) -> None:
    """Answer each connection with the exit status of its run, until the standard input ends."""
    # The folder of this file has modules with common names.
    del sys.path[0]
    for name in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    runs: dict[int, socket.socket] = {}
    with (
        socket.socket(socket.AF_UNIX) as server,
        contextlib.closing(selectors.DefaultSelector()) as selector,
    ):
        server.bind(address)
        server.listen(64)
        woken, wakes = os.pipe()
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *dummy: None)
        for source in (server, woken, 0):
            selector.register(source, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, dummy in selector.select()}
            if 0 in ready:
                return
            if woken in ready:
                os.read(woken, 1024)
                _answer(runs)
            if server in ready:
                connection, dummy = server.accept()
                child = os.fork()
                if not child:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    for source in (server, selector, *runs.values()):
                        source.close()
                    os.close(woken)
                    os.close(wakes)
                    _become(connection)
                runs[child] = connection


def _answer(runs: dict[int, socket.socket]) -> None:
    """Send the exit status of each run that has ended."""
    while runs:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        with runs.pop(child) as connection, contextlib.suppress(OSError):
            connection.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _become(connection: socket.socket) -> None:
    """Become a run of ``python -m ansible``; this does not return."""
    with connection:
        text, (output,), dummy, dummy = socket.recv_fds(connection, 1 << 20, 1)
        while not text.endswith(b"\n"):
            text += connection.recv(1 << 20)
    message = json.loads(text)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    # The streams of the server are of other kinds of files.
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = open(
        1, "w", encoding="utf-8", errors="surrogateescape", closefd=False
    )
    sys.stderr = sys.__stderr__ = open(
        2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False
    )
    os.chdir(message["folder"])
    os.environ.clear()
    os.environ.update(message["environment"])
    time.tzset()
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in os.environ
    sys.path.insert(0, message["folder"])
    sys.argv[1:] = message["words"]
    runpy.run_module("ansible", run_name="__main__", alter_sys=True)
    sys.exit()


# ---------------------------------------------------------------- its users


class _Server:
    """The server of this process."""

    def __init__(self) -> None:
        self._owner, self._address = os.getpid(), ""

    def address(self) -> str:
        """Return its socket; start it, if it is not running in this process."""
        if self._owner != os.getpid() or not self._address:
            self._owner = os.getpid()
            self._address = os.path.join(tempfile.mkdtemp(prefix="drover-ansible_"), "socket")
            process = subprocess.Popen([sys.executable, __file__, self._address], stdin=-1)
            atexit.register(self._end, process)
            while not os.path.exists(self._address):
                assert process.poll() is None, "the server of Ansible's processes has ended"
                time.sleep(0.02)
        return self._address

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if self._owner == os.getpid():
            process.communicate()
            os.unlink(self._address)
            os.rmdir(os.path.dirname(self._address))


_SERVER = _Server()


def run(folder, words, environment):
    """Run one of Ansible's commands.

    :param words: its name behind "ansible-", such as playbook, and its arguments.
    :param environment: all of its environment. A variable of Python needs a new Python.
    :returns: (exit code, its whole output).
    """
    if set(environment) & {"PYTHONPATH", "PYTHONWARNINGS", "PYTHONHOME", "PYTHONUTF8"}:
        done = subprocess.run(
            [sys.executable, "-m", "ansible", *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout
    message = {
        "folder": os.fspath(folder),
        "words": [os.fspath(word) for word in words],
        "environment": {name: os.fspath(value) for name, value in environment.items()},
    }
    readable, writable = os.pipe()
    with (
        open(readable, encoding="utf-8", errors="backslashreplace") as output,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        try:
            connection.connect(_SERVER.address())
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writable]))
            text = json.dumps(message).encode() + b"\n"
            connection.sendall(text[connection.sendmsg([text], [rights]) :])
        finally:
            os.close(writable)
        said = output.read()
        return int(connection.recv(16)), said


if __name__ == "__main__":
    _serve(sys.argv[1])
