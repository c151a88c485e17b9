# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The parts of an image that a copy leaves out. They are read from the image before the copy.

Private to the collection. All ways that copy a disk ask here. A copy by QEMU, while the guest runs
or by ``qemu-img convert``, has only the data that the guest sees, not the other content of the
image; a merge into the image below is such a copy. A copy of the whole file has all that is in the
file. Extended attributes do not count: libvirt labels each copy again. Source:
https://www.qemu.org/docs/master/interop/qcow2.html.
"""

from __future__ import annotations

import json
import subprocess

from .._files import qemu_img
from .._files.image_info import ImageInfo
from .._libvirt.binding import LibvirtProblem
from .._ownership import ownership

#: The ways of a copy: by libvirt while the guest runs (includes bitmaps); by qemu-img convert or
#: commit; byte by byte.
RUNNING, CONVERTED, WHOLE = "running", "converted", "whole"

#: The time limit in seconds for a look at an image.
LIMIT = 60


def read(path: str, image_format: str | None) -> ImageInfo:
    """Return the output of ``qemu-img info`` for an image. A running domain may use the image.

    :raises LibvirtProblem: the image cannot be read.
    """
    known = ["-f", image_format] if image_format else []
    try:
        done = qemu_img.run(["info", "--output=json", "-U", *known, path], LIMIT)
    except OSError as exc:
        raise LibvirtProblem(
            f"qemu-img, which tells what is in {path}, cannot be run ({exc.strerror})"
        ) from exc
    except subprocess.TimeoutExpired as exc:
        raise LibvirtProblem(f"qemu-img did not tell within {LIMIT} s what is in {path}") from exc
    if done.returncode:
        raise LibvirtProblem(f"what is in {path} cannot be read ({' '.join(done.stderr.split())})")
    found: ImageInfo = json.loads(done.stdout)
    return found


def left_out(info: ImageInfo, way: str, encrypted: bool = False) -> list[str]:
    """Return the parts that a copy would leave out. Each is a clause about the image, with advice
    for the operator.

    :param info: the result of read().
    :param encrypted: True if the domain has a secret for the disk, even if the image does not show
        an encryption.
    """
    data = (info.get("format-specific") or {}).get("data") or {}
    sentences = []
    if data.get("data-file"):
        sentences.append(
            f"keeps its data in another file, {data['data-file']}, which is not moved with it:"
            " convert it with qemu-img convert first"
        )
    if way == WHOLE:
        return sentences
    if info.get("encrypted") or encrypted:
        sentences.append("is encrypted, and a copy of it would not be: it is not moved")
    names = snapshots(info)
    if names:
        sentences.append(
            f"has snapshots inside ({', '.join(names[:3])}), which are not copied: delete them with"
            " qemu-img snapshot -d"
        )
    bitmaps = [str(each.get("name")) for each in data.get("bitmaps") or ()]
    # Bitmaps of drover's own backups do not count: after a cold move the next backup has the whole
    # disk.
    foreign = [each for each in bitmaps if not each.startswith(ownership.CHECKPOINT)]
    if foreign and way == CONVERTED:
        sentences.append(
            f"has bitmaps inside ({', '.join(foreign[:3])}), which are not copied: remove them with"
            " qemu-img bitmap --remove"
        )
    return sentences


def snapshots(info: ImageInfo) -> list[str]:
    """Return the names of the snapshots inside an image.

    :param info: the result of read().
    """
    return [str(each.get("name") or each.get("id")) for each in info.get("snapshots") or ()]
