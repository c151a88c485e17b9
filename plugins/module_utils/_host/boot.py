# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The boot id of this host. Each start of the system has a new one."""

from __future__ import annotations

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def read() -> str | None:
    """Read the boot id; None if the system has none."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, ValueError):
        return None
