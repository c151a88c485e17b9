# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An NFS server in user space, with one export. QEMU reaches its files directly, so the kernel
needs no module for it.

A host could have a pool of it only through a mount of the kernel, so there is none.
"""

from __future__ import annotations

import pathlib

from ..layout import SWITCH_ADDRESS, Layout, as_root, run
from . import beside

NAME = "nfs"
PROGRAMS = ("ganesha.nfsd", "rpcbind")
EXPORT, PORT, MOUNT_PORT = "/vms", 2049, 20048
#: The owner of all images. The server maps root to an account without rights.
OWNER = 64055

#: QEMU's driver speaks version 3, and finds the ports by rpcbind. The mount has the name of the
#: export, not of the lab's folder. Tests change files beside the server, so it caches no
#: attributes.
CONFIG = """\
NFS_CORE_PARAM {{
    Protocols = 3;
    Bind_addr = {address};
    NFS_Port = {port};
    MNT_Port = {mount_port};
    Enable_NLM = false;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
}}
NFS_KRB5 {{ Active_krb5 = false; }}
EXPORT {{
    Export_Id = 1;
    Path = "{folder}";
    Pseudo = "{export}";
    Access_Type = RW;
    Squash = Root_Squash;
    SecType = sys;
    Protocols = 3;
    Transports = TCP;
    Attr_Expiration_Time = 0;
    FSAL {{ Name = VFS; }}
}}
"""

#: The folder of the lab is $1. Both servers write below /run and /var/lib/nfs.
SCRIPT = """\
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib/nfs
mkdir /run/ganesha
rpcbind -w -h "$2"
ganesha.nfsd -f "$1/ganesha.conf" -L "$1/log" -p /run/ganesha.pid
"""


class Server:
    """The NFS server of a lab."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.folder = layout, layout.folder / NAME

    def start(self) -> None:
        """Start the server, with an empty export."""
        run(*as_root(), "rm", "-rf", "--one-file-system", "--", self.folder)
        (self.folder / "export").mkdir(parents=True)
        config = CONFIG.format(
            address=SWITCH_ADDRESS,
            port=PORT,
            mount_port=MOUNT_PORT,
            folder=self.folder / "export",
            export=EXPORT,
        )
        (self.folder / "ganesha.conf").write_text(config, encoding="utf-8")
        beside.call(
            self.layout, "unshare", "--mount", "sh", "-c", SCRIPT, "sh", self.folder, SWITCH_ADDRESS
        )
        for port in (PORT, MOUNT_PORT):
            beside.until(
                f"the NFS server listens at port {port}",
                lambda port=port: beside.answers(self.layout, port),
            )

    def make(self, name: str, size_gb: int) -> None:
        """Make an image."""
        with open(self.file(name), "xb") as image:
            image.truncate(size_gb * 2**30)
        self.file(name).chmod(0o600)
        run(*as_root(), "chown", f"{OWNER}:{OWNER}", self.file(name))

    def remove(self, name: str) -> None:
        """Remove an image."""
        self.file(name).unlink()

    def images(self) -> list[str]:
        """Return the names of the images."""
        return sorted(path.name for path in (self.folder / "export").iterdir())

    def file(self, name: str) -> pathlib.Path:
        """Return the file of an image on the server."""
        return self.folder / "export" / name

    def source(self, name: str) -> dict[str, object]:
        """Return the image, as a definition names it."""
        identity = {"user": OWNER, "group": OWNER}
        return {
            "protocol": "nfs",
            "name": f"{EXPORT}/{name}",
            "hosts": [{"name": SWITCH_ADDRESS}],
            "identity": identity,
        }


def up(layout: Layout) -> None:
    """Start the server if it does not run."""
    if not beside.answers(layout, PORT):
        Server(layout).start()
