# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stop of a playbook exactly before or after a task, or a call of a host, by the callback plugin
in the folder callback."""

from __future__ import annotations

import os
import pathlib
import socket
import threading

#: The time limit (seconds) of a run until its task.
PATIENCE = 180


class Stop:
    """One stop of one run: inside ``with`` it the run may be started with its environment.

    :param when: "before" or "after".
    :param task: name of the task; or the module, its state and the host, such as "domain stopped at
        kvm1".
    """

    def __init__(self, when: str, task: str) -> None:
        self._wanted = f"{when}\t{task}\n"
        # A short path, because a socket's path may have 107 bytes.
        self._path = f"/tmp/drover-stops-{os.getpid()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._reached, self._go = threading.Event(), threading.Event()

    def __enter__(self) -> Stop:
        pathlib.Path(self._path).unlink(missing_ok=True)
        self._socket.bind(self._path)
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._go.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        pathlib.Path(self._path).unlink(missing_ok=True)

    def environment(self) -> dict[str, str]:
        return {
            "ANSIBLE_CALLBACK_PLUGINS": os.fspath(pathlib.Path(__file__).parent / "callback"),
            "ANSIBLE_CALLBACKS_ENABLED": "drover_stops",
            "DROVER_STOPS": self._path,
        }

    def wait(self, process) -> bool:
        """Wait until the run has reached its stop; return False if it ended without that."""
        for _dummy in range(PATIENCE * 20):
            if self._reached.wait(0.05):
                return True
            if process.poll() is not None:
                return False
        raise AssertionError(f"the run has not come to {self._wanted!r} within {PATIENCE} s")

    def go(self) -> None:
        self._go.set()

    def _serve(self) -> None:
        while True:
            try:
                connection = self._socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            said = connection.makefile("r").readline()
            if said == self._wanted and not self._reached.is_set():
                self._reached.set()
                self._go.wait()
            try:
                connection.sendall(b"\n")
            except OSError:
                # The run was killed at its stop.
                pass
