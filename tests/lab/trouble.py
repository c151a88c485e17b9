# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Problems of a fleet: its store is lost or restored, a libvirt hangs."""

from __future__ import annotations

import contextlib
import os
import subprocess


class Losing:
    """The base of a class with the attribute fleet; it can lose the store."""

    def note(self, text):
        """Write to a log, for a reader of the run's output."""
        if log := os.environ.get("DROVER_ATTACK_LOG"):
            with open(log, "a", encoding="utf-8") as file:
                file.write(text + "\n")

    def store(self, state):
        """Export the store, or restore it from that export."""
        path = self.fleet.folder / "export.sqlite"
        if state == "imported":
            self.lose()
        words = [
            "ansible",
            "localhost",
            "-m",
            "drover.compute.store",
            "-a",
            f"state={state} path={path}",
        ]
        environment = self.fleet.lab.environment(self.fleet.store_url)
        done = subprocess.run(
            words,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        self.note(f"##### {state}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, done.stdout + done.stderr

    def lose(self):
        for path in self.fleet.folder.glob("store.db*"):
            path.unlink()

    def lost(self, how):
        """Lose the store: it is empty, or has the content of the export."""
        if how == "new":
            self.lose()
        else:
            self.store("imported")


@contextlib.contextmanager
def hanging(fleet, host):
    """Let the libvirt of a host accept connections and not answer."""
    fleet.run(host, "kill -STOP $(cat /run/libvirtd.pid)")
    try:
        yield
    finally:
        fleet.run(host, "kill -CONT $(cat /run/libvirtd.pid)")
