# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests with a program."""

from __future__ import annotations

import base64
import dataclasses

from test_fleet import BOOT_SECTOR, Domain

#: In real mode with a data segment of 4 GiB: inc [edi] in each page from 1 MiB to LIMIT; then the
#: code of BOOT_SECTOR.
FILL = (
    "fa31c08ed8e4920c02e6920f0116687c0f20c00c010f22c0bb08008edb24fe0f22c066bf000010006766ff076681c7001000006681ffLIMIT72ec"
    "ba0206b80001effbba0006f4edf6c40174f9ba0406b80020efebfe900000000000000000ffff00000092cf000f00587c0000"
)


@dataclasses.dataclass
class Full(Domain):
    """A running guest that writes once to each page of its memory (except the last 8 MiB), then
    waits for the power button and switches itself off."""

    memory_mb: int = 96
    boots: bool = True
    size: str = "8M"

    def sector(self) -> bytes:
        """Return the first sector of its disk."""
        limit = ((self.memory_mb - 8) << 20).to_bytes(4, "little").hex()
        return bytes.fromhex(FILL.replace("LIMIT", limit)).ljust(510, b"\0") + b"\x55\xaa"

    def script(self) -> str:
        waiting, full = (
            base64.b64encode(sector).decode() for sector in (BOOT_SECTOR, self.sector())
        )
        return super().script().replace(waiting, full)
