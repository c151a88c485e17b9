# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One disk of a domain, in the domain as it runs and as it is defined; and the parts of it that
cannot be moved.

Private to the collection.
"""

from __future__ import annotations

import copy
from typing import Any
from xml.etree.ElementTree import Element

from .._domain import device_xml, hotplug
from .._domain.definition import parse_disk, source_of
from .._domain.facts import DomainDisk
from .._domain.texts import texts_of
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._ownership import ownership
from .._snapshots import snapshots
from .._storage import kinds, volumes
from .._storage.kinds import Source
from .place import RAW, DiskPlace

#: Elements of a disk, its source, or an image behind it that a copy of the disk, or the definition
#: of the copy, would not have.
_LEFT_OUT = {
    "transient": "transient: its changes are lost when the guest is off",
    "encryption": "encrypted",
    "slices": "a part (slice) of its file",
    "dataStore": "an image with its data in another file",
}


class MovedDisk:
    """A disk by its target, as libvirt has it now.

    :param partly: True if it may be missing in the running domain, the definition or both.
    :ivar live: it in the running domain, None if that is off. config: it in the definition. split:
        which of the two lacks it, in words, or None.
    :raises LibvirtProblem: the domain has no such disk.
    """

    def __init__(self, domain: Any, target: str, partly: bool = False) -> None:
        self.domain, self.target = domain, target
        self.where = f"{domain.name()} on {host_name()}"
        self.forms = hotplug.forms_of(domain)
        found = [None if root is None else find(root, target) for root in self.forms]
        self.live, self.config = found[0], found[1]
        lacking = ["the running guest"] if self.forms[0] is not None and self.live is None else []
        lacking += ["the definition"] if self.config is None else []
        self.split = " and ".join(lacking) or None
        if self.split and not partly:
            targets = sorted(device_xml.targets([self.forms[1]]))
            missing = (
                "has no disk"
                if self.config is None and self.live is None
                else "has only in one of the running guest and the definition a disk"
            )
            raise LibvirtProblem(
                f"{self.where} {missing} {target}: correct drover_disk. It is defined with"
                f" {', '.join(targets) or 'no disk'}."
            )

    @property
    def sources(self) -> list[str | None]:
        """The present sources: of the running domain, if it runs, and of the definition."""
        return [parse_disk(each)["source"] for each in (self.live, self.config) if each is not None]

    @property
    def facts(self) -> DomainDisk:
        """The facts of the disk in its definition."""
        return parse_disk(self._defined())

    def _defined(self) -> Element:
        element = self.live if self.config is None else self.config
        if element is None:
            raise LibvirtProblem(f"{self.where} has no disk {self.target}.")
        return element

    @property
    def mirror(self) -> Element | None:
        """The job of libvirt that copies the disk, or commits it."""
        return None if self.live is None else self.live.find("mirror")

    def refuse(self) -> None:
        """Refuse a disk that cannot be moved, or a domain without any movable disk."""
        facts, name = self.facts, f"The disk {self.target} of {self.where}"
        kind = kinds.of_disk(facts)
        if facts["device"] != "disk":
            raise LibvirtProblem(
                f"{name} is a {facts['device']}, which is not moved: only disks are."
            )
        if facts["source"] is None:
            raise LibvirtProblem(f"{name} has no file.")
        if not kind.is_image and self.volume is None:
            raise LibvirtProblem(
                f"{name} is {kind.why_fixed or f'of the type {kind.name}'}. It is not moved here."
            )
        if facts["format"] not in ("qcow2", "raw"):
            raise LibvirtProblem(
                f"{name} has the format {facts['format']}, and only qcow2 and raw are moved."
            )
        if facts["shareable"]:
            raise LibvirtProblem(
                f"{name} is shareable: other guests may write to it, and would go on with the old"
                " one. It is not moved."
            )
        if facts["readonly"]:
            raise LibvirtProblem(
                f"{name} is read-only, and others may read it too. It is not moved: copy it, and"
                " attach the copy."
            )
        for disk in (each for each in (self.live, self.config) if each is not None):
            for tag, why in _LEFT_OUT.items():
                if disk.find(tag) is not None or disk.find(f".//source/{tag}") is not None:
                    raise LibvirtProblem(f"{name} is {why}. It is not moved.")
        if len(set(self.sources)) > 1:
            raise LibvirtProblem(
                f"{name} is {self.sources[0]} in the running guest and {self.sources[1]} in the"
                " definition: shut it off and start it, then run this again."
            )
        self._refuse_domain()

    def _refuse_domain(self) -> None:
        if not self.domain.isPersistent():
            raise LibvirtProblem(
                f"{self.where} is transient: libvirt forgets it once it is off. Define it there"
                " first."
            )
        if self.domain.hasManagedSaveImage(0):
            raise LibvirtProblem(
                f"{self.where} has its memory saved, and would start with the disks that it had"
                " then: start it, or drop the image with virsh managedsave-remove."
            )
        for what, count in (
            ("snapshots", lambda flags: len(snapshots.read(self.domain))),
            ("checkpoints", lambda flags: len(self.domain.listAllCheckpoints(flags))),
        ):
            if _optional(count):
                raise LibvirtProblem(
                    f"{self.where} has {what}, which are of the disks that it has now: delete the"
                    f" {what} first."
                )
        if self.mirror is not None:
            raise LibvirtProblem(
                f"A block job that drover did not begin works on the disk {self.target} of"
                f" {self.where}: wait for its end, or end it with virsh blockjob."
            )
        if self.domain.isActive() and _optional(
            lambda flags: self.domain.blockJobInfo(self.target, flags)
        ):
            raise LibvirtProblem(
                f"A block job works on the disk {self.target} of {self.where}: wait for its end"
                " (virsh blockjob)."
            )

    @property
    def volume(self) -> tuple[str, str] | None:
        """Pool and volume, if it is in a pool without files of this host."""
        if kinds.of_disk(self.facts).source not in (Source.DEVICE, Source.SERVER):
            return None
        return volumes.of_disk(self.domain.connect(), self._defined())

    def owner(self, name: str) -> ownership.RemovalCandidate:
        """Return its file if the file may be removed after the move of the disk: proven by its use,
        or by its name.
        """
        path = str(self.facts["source"])
        for candidate in ownership.candidates_of(self.domain.connect(), texts_of(self.domain)):
            if candidate.path == path:
                candidate.by_use = candidate.by_use or ownership.is_named_for(
                    path, self.domain.UUIDString(), name
                )
                return candidate
        return ownership.RemovalCandidate(path, refused="its use cannot be told")

    def define(self, place: DiskPlace) -> None:
        """Have the definition name another place, and nothing else changed."""
        self._update(moved(self._defined(), place))

    def define_as_it_runs(self) -> None:
        """Make the definition name the disk of the running guest."""
        if self.live is not None:
            self._update(_without_layers(self.live))

    def _update(self, disk: Element) -> None:
        self.domain.updateDeviceFlags(device_xml.text_of(disk), libvirt.VIR_DOMAIN_AFFECT_CONFIG)


def find(root: Element, target: str) -> Element | None:
    """Find a disk of a domain by its target."""
    for disk in root.findall("devices/disk"):
        named = disk.find("target")
        if named is not None and named.get("dev") == target:
            return disk
    return None


def moved(disk: Element, place: DiskPlace) -> Element:
    """Return a disk for its new place. libvirt's data about the images behind the old one are left
    out.
    """
    disk = _without_layers(disk)
    disk.set("type", place.type)
    source, driver = disk.find("source"), disk.find("driver")
    if source is None:
        return disk
    if place.xml is None:
        for name in ("file", "dev", "protocol", "name", "index", "startupPolicy"):
            source.attrib.pop(name, None)
        for element in list(source):
            source.remove(element)
        source.set("file", place.name)
        _remove_elements(disk, "auth")
        return disk
    position = list(disk).index(source)
    _remove_elements(disk, "source", "auth")
    for element in place.xml:
        if element.tag in ("source", "auth"):
            disk.insert(position, copy.deepcopy(element))
    if driver is not None:
        driver.set("type", RAW)
    return disk


def _without_layers(disk: Element) -> Element:
    disk = copy.deepcopy(disk)
    _remove_elements(disk, "backingStore", "mirror")
    return disk


def _remove_elements(disk: Element, *tags: str) -> None:
    for tag in tags:
        for each in disk.findall(tag):
            disk.remove(each)


def copied_to(mirror: Element) -> str | None:
    """Return the destination of a copy job, in the form of the source of a disk in facts; None for
    another kind of job.
    """
    return source_of(mirror) if mirror.get("job") == "copy" or is_ending(mirror) else None


def is_ending(mirror: Element) -> bool:
    """Return True if the job has ended, and libvirt only waits until QEMU has closed the target of
    the copy (seen: a full pool of Ceph keeps that waiting).
    """
    return mirror.get("job") == ""


def facts_of_copy(facts: DomainDisk, place: DiskPlace) -> DomainDisk:
    """Return the facts of a disk as they are once it is elsewhere."""
    copied_facts = facts.copy()
    copied_facts.pop("origin", None)
    copied_facts.update({"type": place.type, "source": place.name})
    if place.volume:
        copied_facts["format"] = RAW
    if place.source is Source.SERVER:
        copied_facts["origin"] = place.origin
    return copied_facts


def _optional(call: Any) -> Any:
    """Return the answer of libvirt, None if the driver, or an old libvirt, does not support the
    call.

    :param call: takes the flags.
    """
    try:
        return call(0)
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) != libvirt.VIR_ERR_NO_SUPPORT:
            raise
        return None
