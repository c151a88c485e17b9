# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs where, seen over and over again on every host for as long as a test lasts.

An instance that moves runs at its source, then at its destination, and never at its source again. So
one whose hosts alternate has run twice, or has been set back to what it was before its move.
"""
from __future__ import annotations

import pathlib
import shlex
import typing

#: Run on a host until /srv/shared/watched is gone: a line "TIME UUID" for each domain that runs, ten times a second.
WATCH = """
import libvirt, os, sys, time
libvirt.registerErrorHandler(lambda context, error: None, None)
conn = None
with open("/srv/shared/seen-" + os.uname().nodename, "a", buffering=1) as seen:
    while os.path.exists("/srv/shared/watched"):
        try:
            conn = conn or libvirt.openReadOnly("qemu:///system")
            for domain in conn.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_RUNNING):
                now = time.time()
                if domain.state()[0] in (libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_BLOCKED):
                    seen.write(f"{now} {domain.UUIDString()}\\n")
        except libvirt.libvirtError:
            if conn is not None and not conn.isAlive():
                conn = None
        time.sleep(0.1)
"""


class Watch:
    """Watches from ``with`` to its end. A host whose power was cut is watched again after ``on(host)``."""

    def __init__(self, fleet: typing.Any) -> None:
        self._fleet = fleet
        self._folder: pathlib.Path = fleet.lab.layout.shared

    def __enter__(self) -> Watch:
        for file in self._folder.glob("seen-*"):
            file.unlink()
        (self._folder / "watched").touch()
        for host in self._fleet.hosts:
            self.on(host)
        return self

    def __exit__(self, *exc_info: object) -> None:
        (self._folder / "watched").unlink()

    def on(self, host: str) -> None:
        self._fleet.run(host, f"setsid /usr/bin/python3 -c {shlex.quote(WATCH)} < /dev/null > /dev/null 2>&1 &")

    def path(self, uuid: str) -> list[str]:
        """The hosts that a domain has run on, one after the other."""
        seen = []
        for host in self._fleet.hosts:
            for line in (self._folder / f"seen-{host}").read_text(encoding="utf-8").splitlines():
                time, each = line.split()
                if each == uuid:
                    seen.append((float(time), host))
        hosts = [host for dummy, host in sorted(seen)]
        return [host for host, before in zip(hosts, [None, *hosts]) if host != before]
