# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests with a program: their disk has it in its first sector."""

from __future__ import annotations

import base64
import dataclasses
import pathlib

from test_fleet import BOOT_SECTOR, Domain

#: In real mode with a data segment of 4 GiB: inc [edi] in each page from 1 MiB to LIMIT; then the
#: code of BOOT_SECTOR.
FILL = (
    "fa31c08ed8e4920c02e6920f0116687c0f20c00c010f22c0bb08008edb24fe0f22c066bf000010006766ff076681c7001000006681ffLIMIT72ec"
    "ba0206b80001effbba0006f4edf6c40174f9ba0406b80020efebfe900000000000000000ffff00000092cf000f00587c0000"
)

#: In real mode: loop { inc dword [0x7e00]; write 0x7e00 to the second sector (int 0x13, ah = 0x43);
#: sti; hlt five times }, so once for each five ticks of the clock, 3.6 times a second. Its last 17
#: bytes are the packet of the call, and the number of the disk.
BEAT = (
    "fa31c08ed88ed0bc007c8816387cfb66ff06007ebe287c8a16387cb80043cd13fbf4f4f4f4f4ebe7"
    "10000100007e0000010000000000000000"
)


def boot_sector(program: str) -> bytes:
    """Return the first sector of a disk, with a program in hexadecimal digits."""
    return bytes.fromhex(program).ljust(510, b"\0") + b"\x55\xaa"


@dataclasses.dataclass
class Programmed(Domain):
    """A running guest with a program of its own."""

    boots: bool = True
    size: str = "8M"

    def sector(self) -> bytes:
        """Return the first sector of its disk."""
        raise NotImplementedError

    def script(self) -> str:
        waiting, full = (
            base64.b64encode(sector).decode() for sector in (BOOT_SECTOR, self.sector())
        )
        return super().script().replace(waiting, full)


@dataclasses.dataclass
class Full(Programmed):
    """A guest that writes once to each page of its memory (except the last 8 MiB), then waits for
    the power button and switches itself off."""

    memory_mb: int = 96

    def sector(self) -> bytes:
        limit = ((self.memory_mb - 8) << 20).to_bytes(4, "little").hex()
        return boot_sector(FILL.replace("LIMIT", limit))


@dataclasses.dataclass
class Beating(Programmed):
    """A guest that counts as its clock ticks, from its start on, and writes the number to its
    disk. A guest that was started again begins with 1."""

    def sector(self) -> bytes:
        return boot_sector(BEAT)

    def script(self) -> str:
        # The second sector has the same place in the file for its whole life.
        return (
            super()
            .script()
            .replace("qcow2 -c", "raw -c")
            .replace("create -q -f qcow2", "create -q -f raw")
            .replace("type='qcow2'", "type='raw'")
        )

    def beats(self, shared: pathlib.Path) -> int:
        """Return the number on its disk.

        :param shared: the folder of the machine that is /srv/shared on the hosts.
        """
        with open(shared / pathlib.Path(self.paths[0]).relative_to("/srv/shared"), "rb") as disk:
            disk.seek(512)
            return int.from_bytes(disk.read(4), "little")
