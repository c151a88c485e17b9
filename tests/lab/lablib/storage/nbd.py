# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An NBD server: each file of a folder is an export for several clients at once. NBD has no secret,
and libvirt has no pool for it."""

from __future__ import annotations

import pathlib

from ..layout import SWITCH_ADDRESS, Layout, as_root, run
from . import beside

NAME = "nbd"
PROGRAMS = ("nbdkit",)
PORT = 10809


class Server:
    """The NBD server of a lab."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.folder = layout, layout.folder / NAME

    def start(self) -> None:
        """Start the server, without an export."""
        run(*as_root(), "rm", "-rf", "--one-file-system", "--", self.folder)
        (self.folder / "exports").mkdir(parents=True)
        words = ("--ipaddr", SWITCH_ADDRESS, "--port", str(PORT), "--pidfile", self.folder / "pid")
        beside.call(self.layout, "nbdkit", *words, "file", f"dir={self.folder / 'exports'}")
        beside.until("the NBD server listens", lambda: beside.answers(self.layout, PORT))

    def make(self, name: str, size_gb: int) -> None:
        """Make an image."""
        with open(self.file(name), "xb") as image:
            image.truncate(size_gb * 2**30)

    def remove(self, name: str) -> None:
        """Remove an image."""
        self.file(name).unlink()

    def images(self) -> list[str]:
        """Return the names of the images."""
        return sorted(path.name for path in (self.folder / "exports").iterdir())

    def file(self, name: str) -> pathlib.Path:
        """Return the file of an image on the server."""
        return self.folder / "exports" / name

    def source(self, name: str) -> dict[str, object]:
        """Return the image, as a definition names it."""
        return {"protocol": "nbd", "name": name, "hosts": [{"name": SWITCH_ADDRESS, "port": PORT}]}


def up(layout: Layout) -> None:
    """Start the server if it does not run."""
    if not beside.answers(layout, PORT):
        Server(layout).start()
