# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The images in the backing chain of a disk, and the merge of one image into the next.

Private to the collection. A merge may be interrupted at any time. Until its end the upper image
keeps all its data. So the disk has the same content, and the merge can be repeated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._files import access
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import parse
from .._storage import backing
from . import images

#: The seconds between two looks at a merge.
POLL = 0.25


class StillMerging(LibvirtProblem):
    """The error for a merge that still runs at the end of the time."""


def real(path: str) -> str:
    """Return the path of a file without symbolic links.

    :raises Unresponsive: the file system does not answer.
    """
    return access.call(os.path.realpath, path)


def layers(path: str, image_format: str | None) -> list[str]:
    """Return the images of a disk: first the image that the guest writes to, then its backing
    files.

    :raises LibvirtProblem: the images are unknown.
    """
    chain = backing.chain(path, image_format)
    if chain.troubles:
        raise LibvirtProblem(
            f"the images of the disk {path} on {host_name()} are not known: {chain.troubles[0]}"
        )
    return [path, *chain.files]


def position(chain: Sequence[str], image: str) -> int | None:
    """Return the position of an image in a chain; None if it is not in the chain."""
    wanted = real(image)
    return next((number for number, each in enumerate(chain) if real(each) == wanted), None)


def disk_of(root: Element, target: str) -> Element:
    """Return the disk of a domain by its target.

    :raises LibvirtProblem: the domain has no such disk.
    """
    for element in root.findall("devices/disk"):
        found = element.find("target")
        if found is not None and found.get("dev") == target:
            return element
    raise LibvirtProblem(f"there is no disk {target} in the domain on {host_name()}")


def file_of(element: Element) -> str | None:
    """Return the image file of a disk, or of a layer of it."""
    source = element.find("source")
    return None if source is None else source.get("file")


# -- merge for a domain that is off ----------------------------------------------------------------


def merge_offline(
    module: AnsibleModule, upper: str | None, image: str, base: tuple[str, str], limit: float
) -> None:
    """Write the data of an image into its backing file, and remove the image from the chain. The
    file stays.

    :param upper: the image above it. If it is None, the domain writes to the image itself; the
        caller must then define the domain with ``base``.
    :param base: path and format of the backing file.
    :param limit: the time limit in seconds.
    :raises ImageProblem: the merge failed, or took too long.
    :raises LibvirtProblem: the image has another backing file.
    """
    info = images.image_info(module, image)
    behind = info.get("full-backing-filename") or info.get("backing-filename")
    if (
        not behind
        or real(behind) != real(base[0])
        or info.get("backing-filename-format") != base[1]
    ):
        raise LibvirtProblem(
            f"{image} on {host_name()} is backed by {behind or 'nothing'}"
            f" ({info.get('backing-filename-format') or 'no format named'}), not by {base[0]}"
            f" ({base[1]}): somebody has changed it. Nothing was merged; look at it with qemu-img"
            " info"
        )
    images.commit(module, image, limit)
    if upper is not None:
        images.rebase(module, upper, base)


# -- merge for a running domain --------------------------------------------------------------------


def job_of(domain: Any, target: str) -> dict[str, int]:
    """Return the block job of a disk; an empty dict without a job.

    :raises libvirt.libvirtError: the job is unknown.
    """
    return dict(domain.blockJobInfo(target, 0) or {})


def merge_live(domain: Any, target: str, image: str, base: str, deadline: float) -> None:
    """Merge as merge_offline() does while the guest runs and writes; continue a merge of an earlier
    run.

    :param target: the target of the disk.
    :param image, base: paths.
    :param deadline: the time of time.monotonic() at which to stop.
    :raises StillMerging: the merge continues.
    :raises LibvirtProblem: another job is under way.
    :raises libvirt.libvirtError: libvirt refuses.
    """
    active = _live(domain, target)
    is_active = real(file_of(active) or "") == real(image)
    job_type = (
        libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_ACTIVE_COMMIT
        if is_active
        else libvirt.VIR_DOMAIN_BLOCK_JOB_TYPE_COMMIT
    )
    job = job_of(domain, target)
    if job and job.get("type") != job_type:
        raise LibvirtProblem(
            f"another block job, such as a copy or a backup, works on the disk {target} on"
            f" {host_name()}: wait for its end (virsh blockjob), then run this again"
        )
    if not job:
        flags = libvirt.VIR_DOMAIN_BLOCK_COMMIT_ACTIVE if is_active else 0
        domain.blockCommit(
            target,
            _name_of_layer(active, target, base),
            None if is_active else _name_of_layer(active, target, image),
            0,
            flags,
        )
    while True:
        job = job_of(domain, target)
        mirror = _live(domain, target).find("mirror") if is_active else None
        if is_active and mirror is not None and mirror.get("ready") == "yes":
            domain.blockJobAbort(target, libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
            return
        if not job and mirror is None:
            return
        if time.monotonic() >= deadline:
            done, of = job.get("cur", 0), job.get("end", 0)
            share = f", {100 * done // of}% of it is done" if of else ""
            raise StillMerging(
                f"the disk {target} is still being merged on {host_name()}{share}. The guest goes"
                " on meanwhile. Run this again, which goes on with it"
            )
        time.sleep(POLL)


def _live(domain: Any, target: str) -> Element:
    return disk_of(parse(domain.XMLDesc(0)), target)


def _name_of_layer(disk: Element, target: str, image: str) -> str:
    """Return libvirt's name of a layer of a disk.

    :raises LibvirtProblem: libvirt does not have the layer.
    """
    layer: Element | None = disk
    real_path = real(image)
    while layer is not None:
        source = layer.find("source")
        if source is not None and real(source.get("file") or "/") == real_path:
            return f"{target}[{source.get('index')}]" if source.get("index") else image
        layer = layer.find("backingStore")
    raise LibvirtProblem(
        f"libvirt on {host_name()} does not show {image} as a part of the disk {target}"
    )


def text_of(problem: Exception) -> str:
    """Return an error of libvirt or of this collection in words, without a full stop."""
    text = binding.text_of(problem) if isinstance(problem, libvirt.libvirtError) else str(problem)
    return text.rstrip(".")
