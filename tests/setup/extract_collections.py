# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract collections from a wheel of the package "ansible".

Usage: extract_collections.py WHEEL FOLDER NAMESPACE/NAME...
"""

from __future__ import annotations

import sys
import zipfile


def main(wheel: str, folder: str, *collections: str) -> None:
    starts = tuple(f"ansible_collections/{name}/" for name in collections)
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.startswith(starts):
                archive.extract(name, folder)


main(*sys.argv[1:])
