# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A private PgBouncer in front of the private PostgreSQL of the tests. It ends with the process
that started it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time

from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit.postgres import ROLE

CONFIGURATION = """[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {folder}/users
pool_mode = {mode}
default_pool_size = {connections}
logfile = {folder}/log
pidfile = {folder}/pid
"""
START_SECONDS = 30


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def in_front_of(cluster, mode, connections):
    """Yield a function from the URL of a database to the URL of the same database through
    PgBouncer.

    :param cluster: postgres.Cluster.
    :param mode: unit for which a client has a connection to the server: session, transaction or
        statement.
    :param connections: number of connections to the server for all clients.
    """
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        parts.leave_out(
            "The tests of PgBouncer",
            "pgbouncer is missing on this machine: apt-get install pgbouncer",
        )
    folder, port = (
        tempfile.mkdtemp(prefix="drover-pgbouncer-", dir=cluster.folder.parent),
        _free_port(),
    )
    try:
        for name, text in (
            ("users", f'"{ROLE}" "{cluster.password}"\n'),
            (
                "ini",
                CONFIGURATION.format(
                    server=cluster.port,
                    port=port,
                    folder=folder,
                    mode=mode,
                    connections=connections,
                ),
            ),
        ):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        cluster.give(folder)
        process = subprocess.Popen(
            cluster.command(program, os.path.join(folder, "ini")),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(process, port, os.path.join(folder, "log"))
            yield lambda url: url.replace(f":{cluster.port}/", f":{port}/")
        finally:
            # Since 1.23 it waits for its clients to leave after SIGTERM, and the clients are
            # connections of a pool.
            process.kill()
            process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process, port, log):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    with open(log, encoding="utf-8") as file:
        raise RuntimeError(f"PgBouncer did not start: {file.read()}")
