# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Copies of the disks of a running domain at one moment, made by libvirt.

Private to the collection. A copy has a temporary name until it is complete. An incremental copy has
the data written since the copy before it, which is its backing file, so that it opens as the whole
disk.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._domain.definition import has_written_image, parse_disk, state_name
from .._domain.facts import DomainDisk
from .._files import access, qemu_img
from .._images import contents, layers
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._libvirt.xml import parse
from .._ownership import ownership
from .._storage import kinds
from .checkpoints import Checkpoints, named

#: The seconds between two looks at the job, and the seconds to wait for its end after a cancel.
POLL, CANCELLED = 0.5, 60
#: The time limit in seconds for a change of the backing file of a copy, or a look at its chain.
REBASE = 60
#: The prefix of the name of an incomplete copy.
PART = f"{ownership.TEMPORARY}backup-"
_UNDER_WAY = ("VIR_DOMAIN_JOB_BOUNDED", "VIR_DOMAIN_JOB_UNBOUNDED")


def why_left_out(domain: Any) -> str | None:
    """Return the reason why libvirt cannot copy a domain; None if it can."""
    if not domain.isActive():
        return (
            f"it is {state_name(domain.state(0)[0])}, and libvirt copies only the disks of a guest"
            " that runs: copy its images by hand (qemu-img convert)"
        )
    written = _written(parse(domain.XMLDesc(0)))
    if not written:
        return "it has no disk that it writes to"
    for element, disk in written:
        if element.find(".//encryption") is not None:
            return (
                f"its disk {disk['target']} is encrypted, and a copy of it by libvirt would not be:"
                " copy its image by hand"
            )
    return None


def not_copied(domain: Any) -> list[str]:
    """Return the parts that a copy of a domain lacks, each a clause: disks of only the next start,
    and snapshots inside images.
    """
    later = (
        _written(parse(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
        if domain.isPersistent()
        else []
    )
    now = [disk for _element, disk in _written(parse(domain.XMLDesc(0)))]
    copied = {disk["target"] for disk in now}
    sentences = [
        f"its disk {disk['target']} ({disk['source']}), which it has from its next start on, is not"
        " copied"
        for _element, disk in later
        if disk["target"] not in copied
    ]
    for disk in now:
        is_file = kinds.of_disk(disk).source is kinds.Source.FILE
        if not is_file or disk["format"] != "qcow2":
            continue
        try:
            names = contents.snapshots(contents.read(disk["source"] or "", "qcow2"))
        except LibvirtProblem as exc:
            sentences.append(
                f"whether its disk {disk['target']} has snapshots inside is not known: {exc}"
            )
            continue
        if names:
            sentences.append(
                f"its disk {disk['target']} has snapshots inside ({', '.join(names[:3])}), which no"
                " copy has"
            )
    return sentences


def targets(domain: Any) -> list[str]:
    """Return the targets of the disks that a domain writes to."""
    return [disk["target"] for _element, disk in _written(parse(domain.XMLDesc(0)))]


def _written(root: ET.Element) -> list[tuple[ET.Element, DomainDisk]]:
    """Return the disks that a domain writes to, each as its element and its facts."""
    disks = [(each, parse_disk(each)) for each in root.findall("devices/disk")]
    return [(element, disk) for element, disk in disks if has_written_image(disk)]


def copy(domain: Any, folder: str, timeout: int, incremental: bool = False) -> list[dict[str, str]]:
    """Make the copies and wait until they are complete. The caller has the lock of the domain.

    :param incremental: True to copy only the data written since the last copies in the folder, if
        these data are known, and to let libvirt note the writes from now on.
    :returns: dicts target, path, since (the path of the copy before it, or "") and why_whole (the
        reason for a copy of the whole disk, or "").
    :raises LibvirtProblem: the copies are not complete; they are removed.
    """
    disk_targets, stamp = targets(domain), time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    if _is_busy(domain):
        raise LibvirtProblem(
            f"{_name_of_domain(domain)} has a job under way, such as a move or a backup: wait for its end"
            " (virsh domjobinfo), then run this again"
        )
    for target in disk_targets:
        if layers.job_of(domain, target):
            raise LibvirtProblem(
                f"the disk {target} of {_name_of_domain(domain)} is being copied or merged: wait for the end"
                " of that (virsh blockjob)"
            )
    parts = {
        target: os.path.join(folder, f"{PART}{_name(domain, target, stamp)}")
        for target in disk_targets
    }
    paths = {target: os.path.join(folder, _name(domain, target, stamp)) for target in disk_targets}
    for path in paths.values():
        if access.call(os.path.lexists, path):
            raise LibvirtProblem(
                f"the file {path} exists on {host_name()}, and no file is overwritten: run this"
                " again"
            )
    names = access.call(os.listdir, folder)
    _remove_parts(
        [
            os.path.join(folder, each)
            for each in names
            if each.startswith(f"{PART}{domain.UUIDString()}-")
        ]
    )
    checkpoints = Checkpoints(domain, disk_targets) if incremental else None
    reason = checkpoints.why_not() if checkpoints is not None else None
    if reason is not None:
        checkpoints = None
    base = (
        checkpoints.base(_stamps(domain, disk_targets, names)) if checkpoints is not None else None
    )
    if checkpoints is not None and base is None:
        reason = "what was written since a copy in this folder is not known"
    elif base is not None and not all(
        _opens(os.path.join(folder, _name(domain, target, base))) for target in disk_targets
    ):
        base, reason = None, "a copy that it would need cannot be opened"
    since = {target: _name(domain, target, base) if base else "" for target in disk_targets}
    try:
        begun = checkpoints.begin(stamp, base) if checkpoints is not None else None
        domain.backupBegin(_request(domain, parts, base), begun, 0)
        _wait(domain, timeout)
        for target, part in parts.items():
            if base:
                _lay_on(part, since[target])
            access.call(_rename, part, paths[target])
    except (LibvirtProblem, libvirt.libvirtError, OSError, access.Unresponsive) as exc:
        if not _is_over(domain):
            raise LibvirtProblem(
                f"{exc}. libvirt still works on it, so {', '.join(parts.values())} stays: end the"
                f" job (virsh domjobabort {domain.UUIDString()}); the next run removes the file"
            ) from exc
        _remove_parts(parts.values())
        if checkpoints is not None:
            checkpoints.end(base)
        raise
    if checkpoints is not None:
        checkpoints.end(stamp)
    return [
        {
            "target": target,
            "path": paths[target],
            "since": since[target] and os.path.join(folder, since[target]),
            "why_whole": reason or "",
        }
        for target in disk_targets
    ]


def _name(domain: Any, target: str, stamp: str) -> str:
    return f"{domain.UUIDString()}-{target}-{stamp}.qcow2"


def _stamps(domain: Any, wanted: Collection[str], names: Iterable[str]) -> list[str]:
    """Return the moments with a copy of each of these disks, by the names of files."""
    by_stamp = defaultdict(set)
    for name in names:
        match = re.fullmatch(rf"{domain.UUIDString()}-(\w+)-(\d{{8}}T\d{{6}}Z)\.qcow2", name)
        if match:
            by_stamp[match[2]].add(match[1])
    return [stamp for stamp, have in by_stamp.items() if have >= set(wanted)]


def _opens(path: str) -> bool:
    """Return True if a copy and all its backing files exist."""
    try:
        return (
            qemu_img.run(["info", "-f", "qcow2", "--backing-chain", path], REBASE).returncode == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def _lay_on(part: str, name: str) -> None:
    """Set another copy of the same folder as the backing file of a copy, in place of the disk of
    the guest.

    :raises LibvirtProblem: qemu-img fails.
    """
    try:
        done = qemu_img.run(
            ["rebase", "-u", "-f", "qcow2", "-F", "qcow2", "-b", name, part], REBASE
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise LibvirtProblem(f"qemu-img on {host_name()} did not end: {exc}") from exc
    if done.returncode:
        raise LibvirtProblem(
            f"qemu-img on {host_name()} could not lay the copy on {name}:"
            f" {' '.join(done.stderr.split())}"
        )


def _rename(part: str, path: str) -> None:
    """Give a complete copy its name. Fail if another file has this name."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.rename(part, path)


def _remove_parts(parts: Iterable[str]) -> None:
    for part in parts:
        ownership.drop_temporary(part)


def _name_of_domain(domain: Any) -> str:
    return f"{domain.name()} on {host_name()}"


def _request(domain: Any, parts: Mapping[str, str], base: str | None) -> str:
    root = ET.Element("domainbackup", {"mode": "push"})
    if base is not None:
        ET.SubElement(root, "incremental").text = named(base)
    disks = ET.SubElement(root, "disks")
    for each in parse(domain.XMLDesc(0)).findall("devices/disk"):
        target = parse_disk(each)["target"]
        if target not in parts:
            ET.SubElement(disks, "disk", {"name": target, "backup": "no"})
            continue
        disk = ET.SubElement(disks, "disk", {"name": target, "backup": "yes", "type": "file"})
        ET.SubElement(disk, "driver", {"type": "qcow2"})
        ET.SubElement(disk, "target", {"file": parts[target]})
    return ET.tostring(root, encoding="unicode")


def _is_busy(domain: Any) -> bool:
    return domain.jobInfo()[0] in [getattr(libvirt, each) for each in _UNDER_WAY]


def _wait(domain: Any, timeout: int) -> None:
    deadline = time.monotonic() + timeout
    while _is_busy(domain):
        if time.monotonic() >= deadline:
            raise LibvirtProblem(
                f"the copy of the disks of {_name_of_domain(domain)} was not done within {timeout} s and was"
                " cancelled: allow more time"
            )
        time.sleep(POLL)
    # libvirt returns these values only once.
    stats = domain.jobStats(libvirt.VIR_DOMAIN_JOB_STATS_COMPLETED)
    if (stats.get("type"), stats.get("operation")) != (
        libvirt.VIR_DOMAIN_JOB_COMPLETED,
        libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP,
    ):
        why = stats.get("errmsg") or "libvirt does not say why; look whether there is room for it"
        raise LibvirtProblem(f"the disks of {_name_of_domain(domain)} were not copied: {why}")


def _is_over(domain: Any) -> bool:
    """Cancel a copy that is under way; return True if none is under way then."""
    try:
        if (
            _is_busy(domain)
            and domain.jobStats(0).get("operation") == libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP
        ):
            domain.abortJob()
        deadline = time.monotonic() + CANCELLED
        while _is_busy(domain):
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL)
    except libvirt.libvirtError as exc:
        # If the guest is off or gone, its QEMU does not write.
        return binding.code_of(exc) in (
            libvirt.VIR_ERR_NO_DOMAIN,
            libvirt.VIR_ERR_OPERATION_INVALID,
        )
    return True
