# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Storage servers of the lab, each started on demand at the address of its switch; they end with
the switch. LVM is on each host."""

from __future__ import annotations

import shutil

from ..layout import LabError, Layout, NoLabHere
from . import ceph, cephfs, gluster, iscsi, lvm, nbd, nfs

#: Each has PROGRAMS, up(layout) and NAME.
SERVERS = {each.NAME: each for each in (ceph, cephfs, gluster, iscsi, lvm, nbd, nfs)}


def up(layout: Layout, names: list[str]) -> None:
    """Start servers that do not run yet.

    :raises LabError: there is no such server.
    :raises NoLabHere: a program of it is not installed.
    """
    for name in names:
        if name not in SERVERS:
            raise LabError(
                f"The lab has no storage {name!r}. It has: {', '.join(sorted(SERVERS))}."
            )
        missing = [program for program in SERVERS[name].PROGRAMS if not shutil.which(program)]
        if missing:
            raise NoLabHere(
                f"{', '.join(missing)}: not installed. Run tests/setup/setup.sh storage."
            )
    for name in names:
        SERVERS[name].up(layout)


def down(layout: Layout) -> None:
    """Release the resources that do not end with the lab."""
    lvm.down(layout)
