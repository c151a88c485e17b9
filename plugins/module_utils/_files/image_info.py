# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The type of the output of ``qemu-img info``.

Private to the collection.
"""

from __future__ import annotations

from typing import TypedDict


class InnerSnapshot(TypedDict, total=False):
    """A snapshot inside an image."""

    id: str
    name: str


class Bitmap(TypedDict, total=False):
    """A bitmap inside an image."""

    name: str


# The keys of QEMU have hyphens.
FormatData = TypedDict("FormatData", {"data-file": str, "bitmaps": list[Bitmap]}, total=False)


class FormatSpecific(TypedDict, total=False):
    """The part of the output for the format."""

    type: str
    data: FormatData


ImageInfo = TypedDict(
    "ImageInfo",
    {
        "filename": str,
        "format": str,
        "virtual-size": int,
        "actual-size": int,
        "encrypted": bool,
        "backing-filename": str,
        "full-backing-filename": str,
        "backing-filename-format": str,
        "cluster-size": int,
        "snapshots": list[InnerSnapshot],
        "format-specific": FormatSpecific,
    },
    total=False,
)
