# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An iSCSI target in user space, with CHAP, that admits each host by its address. QEMU reaches it
directly, so the kernel needs no module for it.

Each host of the lab gets the secret and a storage pool ``iscsi`` of the type iscsi-direct.
"""

from __future__ import annotations

import base64
import os
import pathlib
import uuid

from ..layout import SWITCH_ADDRESS, Host, Layout, as_root, run
from . import beside

NAME = "iscsi"
PROGRAMS = ("tgtd", "tgtadm")
TARGET, USER, PASSWORD = (
    "iqn.2026-01.invalid.lab:vms",
    "libvirt",
    "correct-horse-7",
)  # no secret: it is the lab's own
SECRET = str(uuid.uuid5(uuid.NAMESPACE_DNS, "iscsi.lab.invalid"))
PORT = 3260

SECRET_XML = (
    f"<secret ephemeral='no' private='no'><uuid>{SECRET}</uuid><usage"
    " type='iscsi'><target>lab</target></usage></secret>"
)

POOL_XML = (
    f"<pool type='iscsi-direct'><name>{NAME}</name><source><host name='{SWITCH_ADDRESS}'"
    f" port='{PORT}'/><device path='{TARGET}'/><auth type='chap' username='{USER}'><secret"
    f" uuid='{SECRET}'/></auth><initiator><iqn"
    " name='iqn.2026-01.invalid.lab:{host}'/></initiator></source></pool>"
)


class Target:
    """The target of a lab. An image is a unit of it, and a file of the lab."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.folder = layout, layout.folder / NAME

    def _tgt(self, program: str, *words: str) -> str:
        # The path of a socket may have 107 bytes, and the lab's path may be longer.
        script = f'cd "$1" && shift && TGT_IPC_SOCKET=./socket exec {program} "$@"'
        return beside.call(self.layout, "sh", "-c", script, "sh", self.folder, *words)

    def admin(self, *words: str) -> str:
        """Run a command of the target's administrator."""
        return self._tgt("tgtadm", "--lld", "iscsi", *words)

    def start(self) -> None:
        """Make a new target, and start it."""
        run(*as_root(), "rm", "-rf", "--one-file-system", "--", self.folder)
        self.folder.mkdir()
        self._tgt(
            "setsid",
            "-f",
            "sh",
            "-c",
            f"exec tgtd -f --iscsi portal={SWITCH_ADDRESS}:{PORT} >log 2>&1 </dev/null",
        )
        beside.until("the iSCSI target listens", lambda: beside.answers(self.layout, PORT))
        self.admin("--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET)
        for host in self.layout.hosts():
            if not host.ipv6:  # the portal has no IPv6 address
                self.admin("--op", "bind", "--mode", "target", "--tid", "1", "-I", host.address)
        self.admin("--op", "new", "--mode", "account", "--user", USER, "--password", PASSWORD)
        self.admin("--op", "bind", "--mode", "account", "--tid", "1", "--user", USER)

    def make(self, name: str, size_gb: int) -> None:
        """Make an image."""
        unit = next(number for number in range(1, 100) if number not in self._units().values())
        file = self.folder / f"{unit}-{name}.img"
        with open(file, "xb") as image:
            image.truncate(size_gb * 2**30)
        self.admin(
            "--op",
            "new",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            str(unit),
            "--backing-store",
            os.fspath(file),
        )

    def remove(self, name: str) -> None:
        """Remove an image."""
        self.admin(
            "--op",
            "delete",
            "--mode",
            "logicalunit",
            "--tid",
            "1",
            "--lun",
            str(self._units()[name]),
        )
        self.file(name).unlink()

    def _units(self) -> dict[str, int]:
        found = (path.stem.partition("-") for path in self.folder.glob("*.img"))
        return {name: int(unit) for unit, dummy, name in found}

    def images(self) -> list[str]:
        """Return the names of the images."""
        return sorted(self._units())

    def file(self, name: str) -> pathlib.Path:
        """Return the file of an image on the server."""
        return self.folder / f"{self._units()[name]}-{name}.img"

    def source(self, name: str) -> dict[str, object]:
        """Return the image, as a definition names it."""
        return {
            "protocol": "iscsi",
            "name": f"{TARGET}/{self._units()[name]}",
            "hosts": [{"name": SWITCH_ADDRESS, "port": PORT}],
            "auth": {"username": USER, "secret": SECRET},
        }


def up(layout: Layout) -> None:
    """Start the target if it does not run, and give it to all hosts."""
    target = Target(layout)
    if not beside.answers(layout, PORT):
        target.start()
    for host in layout.hosts():
        give_to(layout, host)


def give_to(layout: Layout, host: Host) -> None:
    """Define the secret and the storage pool on a host."""
    value = base64.b64encode(PASSWORD.encode()).decode()
    beside.give(layout, host, {NAME: POOL_XML.format(host=host.name)}, (SECRET, SECRET_XML, value))
