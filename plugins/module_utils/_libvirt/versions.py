# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The versions of libvirt and QEMU, which libvirt has as numbers.

Private to the collection.
"""

from __future__ import annotations


def dotted(number: int) -> str:
    """Return a version in the usual form: 9.0.2 for 9000002."""
    return f"{number // 1000000}.{number // 1000 % 1000}.{number % 1000}"
