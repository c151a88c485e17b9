# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The running domains, listed repeatedly on every host for the length of a test.

An instance that moves runs at its source, then at its destination, and never at its source again.
So an instance with alternating hosts has run twice, or has returned to its state before the move.
"""

from __future__ import annotations

import pathlib
import shlex
import typing

#: Run on a host until /srv/shared/watched is removed: a line "BEGAN ENDED UUID NAME" for each
#: running domain, ten times a second. libvirt's answer came between the two times.
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
                    seen.write(f"{now} {time.time()} {domain.UUIDString()} {domain.name()}\\n")
        except libvirt.libvirtError:
            if conn is not None and not conn.isAlive():
                conn = None
        time.sleep(0.1)
"""


#: A domain in two consecutive lists ran in the time between them too, if that time is no longer
#: than this (seconds).
CONTINUOUS = 1.5


class Watch:
    """A watch from ``with`` to its end. A host that lost its power is watched again after
    ``on(host)``.

    :param hosts: names of the hosts that are on; None for all.
    """

    def __init__(self, fleet: typing.Any, hosts: list[str] | None = None) -> None:
        self._fleet, self._hosts = fleet, fleet.hosts if hosts is None else hosts
        self._folder: pathlib.Path = fleet.lab.layout.shared

    def __enter__(self) -> Watch:
        for file in self._folder.glob("seen-*"):
            file.unlink()
        (self._folder / "watched").touch()
        for host in self._hosts:
            self.on(host)
        return self

    def __exit__(self, *exc_info: object) -> None:
        (self._folder / "watched").unlink()

    def on(self, host: str) -> None:
        self._fleet.run(
            host, f"setsid /usr/bin/python3 -c {shlex.quote(WATCH)} < /dev/null > /dev/null 2>&1 &"
        )

    def path(self, uuid: str) -> list[str]:
        """Return the hosts of a domain, one after the other."""
        hosts = [host for dummy, dummy, host in sorted(self._seen("uuid").get(uuid, []))]
        return [host for host, before in zip(hosts, [None, *hosts]) if host != before]

    def doubled(self, key: str) -> list[str]:
        """Return the uuids or names that were seen on a host between two consecutive lists of
        another host with them."""
        overlaps = []
        for identity, seen in self._seen(key).items():
            for host in {host for dummy, dummy, host in seen}:
                here = sorted(one for one in seen if one[2] == host)
                for before, after in zip(here, here[1:]):
                    if after[0] - before[1] < CONTINUOUS:
                        overlaps += [
                            f"{identity} ran on {host} and {there} at {began}"
                            for began, ended, there in seen
                            if there != host and before[1] < began and ended < after[0]
                        ]
        return overlaps

    def _seen(self, key: str) -> dict[str, list[tuple[float, float, str]]]:
        """Return all lists with a uuid, or a name: (began, ended, host)."""
        sightings: dict[str, list[tuple[float, float, str]]] = {}
        for file in self._folder.glob("seen-*"):
            host = file.name.removeprefix("seen-")
            for line in file.read_text(encoding="utf-8").splitlines():
                began, ended, uuid, name = line.split(" ", 3)
                sightings.setdefault(uuid if key == "uuid" else name, []).append(
                    (float(began), float(ended), host)
                )
        return sightings
