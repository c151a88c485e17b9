# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A GlusterFS volume of one brick. QEMU reaches its files directly, or through a mount with FUSE.

Each host of the lab gets a storage pool ``gluster`` of the type gluster, and ``glusterfiles`` on a
mount of the volume.
"""

from __future__ import annotations

import pathlib

from ..layout import SWITCH_ADDRESS, Host, Layout, as_root, run
from . import beside

NAME = "gluster"
PROGRAMS = ("glusterd", "gluster", "glusterfs")
VOLUME, FILES = "vms", "glusterfiles"
MOUNT = "/srv/glusterfiles"
PORT = 24007

#: glusterd keeps its state in folders of the machine: here each is a folder of the lab. The
#: arguments: that folder, the address of the brick.
SCRIPT = f"""\
set -e
mount --make-rprivate /
mount -t proc proc /proc
mkdir -p "$1/state" "$1/log" "$1/brick"
for each in /var/lib/glusterd /var/log/glusterfs; do mkdir -p $each; done
mount --bind "$1/state" /var/lib/glusterd
mount --bind "$1/log" /var/log/glusterfs
mount -t tmpfs tmpfs /run
mkdir /run/gluster
glusterd
for i in $(seq 100); do gluster --mode=script volume info >/dev/null 2>&1 && break; sleep 0.2; done
gluster --mode=script volume create {VOLUME} "$2:$1/brick" force
gluster --mode=script volume start {VOLUME}
"""

POOL_XML = (
    f"<pool type='gluster'><name>{NAME}</name><source><host name='{SWITCH_ADDRESS}'/><dir"
    f" path='/'/><name>{VOLUME}</name></source></pool>"
)

FILES_XML = (
    f"<pool type='netfs'><name>{FILES}</name><source><host name='{SWITCH_ADDRESS}'/><dir"
    f" path='{VOLUME}'/><format"
    f" type='glusterfs'/></source><target><path>{MOUNT}</path></target></pool>"
)


class Volume:
    """The volume of a lab. Its brick has the same content."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.folder = layout, layout.folder / NAME

    def start(self) -> None:
        """Make a new volume, and start its servers."""
        run(*as_root(), "rm", "-rf", "--one-file-system", "--", self.folder)
        self.folder.mkdir()
        script = (
            'unshare --mount sh -c "$0" sh "$1" "$2" >"$1/start.log" 2>&1 </dev/null || { tail -n 5'
            ' "$1/start.log"; exit 1; }'
        )
        beside.call(self.layout, "sh", "-c", script, SCRIPT, self.folder, SWITCH_ADDRESS)

    def make(self, name: str, size_gb: int) -> None:
        """Make an image."""
        # The file is written through the volume: a file that is written directly to a brick has no
        # attributes of Gluster.
        self._mounted(f"truncate -s {size_gb}G {MOUNT}/{name}")

    def remove(self, name: str) -> None:
        """Remove an image."""
        self._mounted(f"rm -f {MOUNT}/{name}")

    def _mounted(self, script: str) -> None:
        """Run a script on a host with a mount of the volume."""
        run("ssh", "-F", self.layout.ssh_config, self.layout.hosts()[0].name, script)

    def images(self) -> list[str]:
        """Return the names of the files."""
        return sorted(
            path.name for path in (self.folder / "brick").iterdir() if not path.name.startswith(".")
        )

    def file(self, name: str) -> pathlib.Path:
        """Return the file of an image on the brick."""
        return self.folder / "brick" / name

    def source(self, name: str) -> dict[str, object]:
        """Return the image, as a definition names it."""
        return {
            "protocol": "gluster",
            "name": f"{VOLUME}/{name}",
            "hosts": [{"name": SWITCH_ADDRESS, "port": PORT}],
        }


def up(layout: Layout) -> None:
    """Start the volume if it does not run, and give it to all hosts."""
    if not beside.answers(layout, PORT):
        Volume(layout).start()
    for host in layout.hosts():
        give_to(layout, host)


def give_to(layout: Layout, host: Host) -> None:
    """Mount the volume on a host, and define its pools."""
    run(
        "ssh",
        "-F",
        layout.ssh_config,
        host.name,
        f"mkdir -p {MOUNT} /var/log/glusterfs; ln -sf /proc/self/mounts /etc/mtab",
    )
    beside.give(layout, host, {NAME: POOL_XML, FILES: FILES_XML})
