# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The checksums of images, in the form that operators write.

Private to the collection.
"""

from __future__ import annotations

import re

#: The algorithms, and the number of hexadecimal digits of each.
ALGORITHMS = {"sha256": 64, "sha512": 128}


def read(text: str) -> tuple[str, str] | None:
    """Return ``(algorithm, digits in lower case)`` of a checksum such as ``sha256:...``; None for
    any other text.
    """
    algorithm, dummy, digits = text.partition(":")
    if algorithm in ALGORITHMS and re.fullmatch(rf"[0-9a-fA-F]{{{ALGORITHMS[algorithm]}}}", digits):
        return algorithm, digits.lower()
    return None
