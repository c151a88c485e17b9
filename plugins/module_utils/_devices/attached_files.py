# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check that a file may be attached to a domain, by the users of the file that this host knows.

Private to the collection. Two guests that write to one file destroy it. So a file is attached for
writing only if it is certain that no one else needs it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain.definition import parse_disk
from .._files import access
from .._files.image_info import ImageInfo
from .._images import images
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._ownership import ownership
from .._ownership.needs import Needs, PathSighting, look, volume_path
from .._storage import backing, kinds
from .._storage.kinds import Source


def checked_path(path: str) -> str:
    """Return a path that XML and the lines of messages keep as it is.

    :raises LibvirtProblem: it has control characters: libvirt reads another name than the one that
        was made.
    """
    if any(ord(each) < 32 or ord(each) == 127 for each in path):
        raise LibvirtProblem(f"The path {path!r} has control characters: choose another path.")
    return path


def look_at(path: str) -> PathSighting:
    """Return the Sighting of a path.

    :raises LibvirtProblem: it cannot be read.
    """
    if not os.path.isabs(path):
        raise LibvirtProblem(f"The path {path!r} is not absolute: give the full path of the file.")
    try:
        return look(path)
    except (OSError, access.Unresponsive) as exc:
        raise LibvirtProblem(
            f"The path {path} cannot be read on {host_name()}: {backing.reason_of(exc)}."
        ) from exc


def is_at(conn: Any, disk: Element, path: str, real: str) -> bool:
    """Return True if a disk of a domain is the file of a path, by any name.

    :param real: the path without links.
    """
    found = parse_disk(disk)
    source, kind = found["source"], kinds.of_disk(found).source
    if source is None or kind not in (Source.FILE, Source.VOLUME):
        return False
    if kind is Source.VOLUME:
        try:
            source = volume_path(conn, *source.split("/", 1))
        except (libvirt.libvirtError, OSError, access.Unresponsive):
            return False
    return source in (path, real) or access.real_path(source) == real


def refuse_other_file(looked_up: Collection[str] | None, path: str, real: str) -> None:
    """Refuse a file for which the caller has not looked up the use by other hypervisors.

    :param looked_up: paths; None if the caller looks up nothing.
    """
    if looked_up is not None and real not in looked_up:
        raise LibvirtProblem(
            f"On {host_name()} the path {path} leads to {real}, which was another file a moment"
            " ago. Find out who changes the links there, then run this again."
        )


def refuse_written(conn: Any, but: str | None, path: str, what: str) -> None:
    """Refuse a file that a domain writes to, or that is backed by one.

    :param but: the uuid of the domain whose own needs do not count.
    :param what: disk or medium.
    """
    try:
        writer = Needs(conn, but).writer(path)
    except (OSError, access.Unresponsive) as exc:
        raise LibvirtProblem(
            f"It cannot be read what {path} on {host_name()} is backed by:"
            f" {backing.reason_of(exc)}."
        ) from exc
    if writer:
        raise LibvirtProblem(
            f"The {what} {path} is, or is backed by, a file that the domain {writer} on"
            f" {host_name()} writes to: use a copy of it."
        )


def refuse_unknown_format(module: AnsibleModule, path: str, info: ImageInfo) -> None:
    """Refuse an image with a backing file of a format that is not recorded.

    QEMU would find the format out by the first bytes of that file, and the guest that wrote them
    has chosen these bytes. So these could name any file of the host as the next one behind it.

    :param info: the answer of qemu-img info for the image.
    """
    for _dummy in range(backing.DEEPEST):
        behind = info.get("backing-filename")
        if not behind:
            return
        if not info.get("backing-filename-format"):
            raise LibvirtProblem(
                f"The image {path} on {host_name()} is backed by {behind}, and does not say of"
                " which format that is: record it with qemu-img rebase -u -b FILE -F FORMAT, or"
                " choose another path."
            )
        path = info.get("full-backing-filename") or behind
        if info["backing-filename-format"] == "raw" or not os.path.isabs(path):
            return
        info = images.image_info(module, path)


def refuse_used(conn: Any, but: str | None, path: str, sighting: PathSighting, held: bool) -> None:
    """Refuse to write to a file that another user needs, or may need.

    :param but: the uuid of the domain whose own needs do not count.
    :param held: the running guest has it, so a lock is its own.
    """
    needs = Needs(conn, but)
    needs.look_around([os.path.dirname(sighting.real)])
    user = needs.user(path, sighting)
    if user:
        raise LibvirtProblem(
            f"The file {path} on {host_name()} is in use: {' '.join(user)}. Two users that write to"
            " one disk destroy it: choose another path."
        )
    if sighting.status is None:
        return
    if but is None and sighting.status.st_nlink > 1:
        raise LibvirtProblem(
            f"The file {path} on {host_name()} has {sighting.status.st_nlink} names (hard links),"
            " and a guest of any host may write to it by another one: copy it, or choose another"
            " path."
        )
    reason = needs.why(path, sighting)
    if reason:
        raise LibvirtProblem(
            f"It is not certain that nobody else needs the file {path} on {host_name()}: {reason}."
            " Two users that write to one disk destroy it. Mend that first, or choose another"
            " path."
        )
    reason = None if held else ownership.why_locked(sighting.real)
    if reason:
        raise LibvirtProblem(
            f"The file {path} on {host_name()} is not free: {reason}. Perhaps a guest of this or"
            " another host uses it, or qemu-img works on it: find out who does, or choose another"
            " path."
        )
    refuse_written(conn, but, path, "disk")
