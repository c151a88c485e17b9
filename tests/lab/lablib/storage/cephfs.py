# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A file system of the lab's Ceph cluster, which each host mounts with FUSE, so the kernel needs no
module for it.

Each host of the lab gets a storage pool ``cephfs`` of the type dir on the mount.
"""

from __future__ import annotations

import contextlib
import json

from ..layout import SWITCH_ADDRESS, Host, LabError, Layout, run
from . import beside, ceph

NAME = "cephfs"
PROGRAMS = (*ceph.PROGRAMS, "ceph-mds", "ceph-fuse")
CLIENT, MOUNT = "files", "/srv/cephfs"

CONFIG = """\
[mds]
mds data = {folder}/mds
keyring = {folder}/mds/keyring
"""

POOL_XML = f"<pool type='dir'><name>{NAME}</name><target><path>{MOUNT}</path></target></pool>"

#: Run on a host, with the key on its standard input.
MOUNT_IT = f"""\
mountpoint -q {MOUNT} && exit 0
mkdir -p {MOUNT} && cat > /root/cephfs.keyring
ceph-fuse --name client.{CLIENT} --keyring /root/cephfs.keyring -m {SWITCH_ADDRESS}:6789 {MOUNT}
"""


class FileSystem:
    """The file system of a lab."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.cluster = layout, ceph.Cluster(layout)

    def is_up(self) -> bool:
        with contextlib.suppress(LabError, ValueError, KeyError):
            maps = json.loads(self.cluster.ceph("--format", "json", "fs", "dump"))["filesystems"]
            return any(
                each["state"] == "up:active"
                for found in maps
                for each in found["mdsmap"]["info"].values()
            )
        return False

    def start(self) -> None:
        """Make the file system, and start its server."""
        folder = self.cluster.folder
        (folder / "mds").mkdir()
        with open(self.cluster.config, "a", encoding="utf-8") as config:
            config.write(CONFIG.format(folder=folder))
        allowed = (
            "mon",
            "allow profile mds",
            "osd",
            "allow rwx",
            "mds",
            "allow",
            "mgr",
            "allow profile mds",
        )
        (folder / "mds/keyring").write_text(
            self.cluster.ceph("auth", "get-or-create", "mds.a", *allowed), encoding="utf-8"
        )
        for pool in ("files_metadata", "files_data"):
            self.cluster.ceph("osd", "pool", "create", pool, "8")
        self.cluster.ceph("fs", "new", "files", "files_metadata", "files_data")
        self.cluster.call("ceph-mds", "--conf", str(self.cluster.config), "-i", "a")
        beside.until("the file system of Ceph is up", self.is_up, ceph.PATIENCE)

    def give_to(self, host: Host) -> None:
        """Mount it on a host, and define its pool."""
        key = self.cluster.ceph("fs", "authorize", "files", f"client.{CLIENT}", "/", "rw")
        run("ssh", "-F", self.layout.ssh_config, host.name, MOUNT_IT, text=key)
        beside.give(self.layout, host, {NAME: POOL_XML})


def up(layout: Layout) -> None:
    """Start the file system if it does not run, and mount it on all hosts."""
    files = FileSystem(layout)
    if not files.cluster.is_up():
        files.cluster.start()
    if not files.is_up():
        files.start()
    for host in layout.hosts():
        give_to(layout, host)


def give_to(layout: Layout, host: Host) -> None:
    """Mount it on a host, and define its pool."""
    FileSystem(layout).give_to(host)
