# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The refusal of a domain before anything is made for it."""

from __future__ import annotations

import os
import stat

from .._domain.definition import is_source, nvram_path, parse_disk
from .._files import access
from .._host import offered
from .._images import images
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name
from .._libvirt.xml import parse
from .._ownership.needs import Needs, look
from .._storage import backing, block_volumes, kinds, sources
from .._storage.kinds import Source
from .domain_call import DomainCall


class Refusals:
    """The refusals of a call: files that are another's, and hardware that the host does not
    have.
    """

    def __init__(self, call: DomainCall) -> None:
        self.call = call
        self._needs: Needs | None = None

    def refuse_used_device(self, place: tuple[str, str]) -> None:
        """Refuse a volume that is a block device if another domain names it, even if the device
        does not exist yet.
        """
        try:
            device = block_volumes.device_of(self.call.conn, *place)
            user = device and self._needs_of_others().user(device, look(device))
        except (OSError, access.Unresponsive) as exc:
            raise images.ImageProblem(
                f"The volume {'/'.join(place)} cannot be read on {host_name()}:"
                f" {backing.reason_of(exc)}."
            ) from exc
        if user:
            raise images.ImageProblem(
                f"The device {device} is in use by {user[0]} on {host_name()}: choose another pool"
                f" for {self.call.name}."
            )

    def _needs_of_others(self) -> Needs:
        if self._needs is None:
            self._needs = Needs(self.call.conn, self.call.uuid, self.call.params["used_elsewhere"])
        return self._needs

    def refuse_used(self, path: str) -> None:
        """Refuse a path that another domain names, even if no file exists there."""
        try:
            sighting = look(path)
            user = self._needs_of_others().user(path, sighting)
        except (OSError, access.Unresponsive) as exc:
            raise images.ImageProblem(
                f"The path {path} cannot be read on {host_name()}: {backing.reason_of(exc)}."
            ) from exc
        if user:
            raise images.ImageProblem(
                f"The file {path} is in use by {user[0]} on {host_name()}: choose another path for"
                f" {self.call.name}."
            )
        looked_up = self.call.params["looked_up"]
        if looked_up is not None and sighting.real not in looked_up:
            self.call.links[path] = sighting.real

    def refuse_written(self, image: str, disk: str) -> None:
        """Refuse a backing image that another domain writes to, because these writes would destroy
        the new disk.
        """
        try:
            writer = self._needs_of_others().writer(image)
        except (OSError, access.Unresponsive) as exc:
            raise images.ImageProblem(
                f"The image {image} cannot be read on {host_name()}: {backing.reason_of(exc)}."
            ) from exc
        if writer:
            raise images.ImageProblem(
                f"The image {image} of {disk} is, or is backed by, a file that the domain {writer}"
                f" on {host_name()} writes to, which would destroy the new disk: use a copy of that"
                " image."
            )

    def refuse_links(self) -> None:
        """Refuse symbolic links, because the caller has not checked if another hypervisor uses
        their real files.
        """
        if self.call.links:
            what = ", ".join(f"{path} is {real}" for path, real in sorted(self.call.links.items()))
            raise images.ImageProblem(
                f"On {host_name()} {what}, and whether another hypervisor uses that was not"
                " looked up."
            )

    def refuse_used_disks(self) -> None:
        """Refuse writable disks of a new domain that another domain uses."""
        for element in parse(self.call.definition()).findall("devices/disk"):
            disk = parse_disk(element)
            if (
                not disk["source"]
                or disk["readonly"]
                or disk["shareable"]
                or disk["device"] != "disk"
            ):
                continue
            kind = kinds.of_disk(disk).source
            if kind is Source.FILE or (kind is Source.DEVICE and is_source(element)):
                self.refuse_used(disk["source"])
                if is_source(element):
                    self._refuse_missing(disk["source"])
                    self._refuse_other_names(disk["source"])
            elif origin := disk.get("origin"):
                user = sources.user_of(self.call.conn, origin, self.call.uuid)
                if user:
                    raise LibvirtProblem(
                        f"The disk {disk['source']} of {self.call.name} is in use by the domain"
                        f" {user} on {host_name()}: two writers would destroy it."
                    )

    def _refuse_missing(self, path: str) -> None:
        """Refuse a disk that should exist and does not, because it is never made."""
        try:
            exists = access.call(os.path.exists, path)
        except access.Unresponsive as exc:
            raise images.ImageProblem(str(exc)) from exc
        if not exists:
            raise images.ImageProblem(
                f"The disk {path} of {self.call.name} is not on {host_name()}, and a disk with"
                " source is never made: mount or make it there, or correct its path."
            )

    def _refuse_other_names(self, path: str) -> None:
        """Refuse a file with another name (hard link), because a guest of any host may use the file
        by that name.
        """
        status = look(path).status
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            raise images.ImageProblem(
                f"The disk {path} of {self.call.name} has {status.st_nlink} names (hard links) on"
                f" {host_name()}, and a guest of any host may write to it by another one: give it a"
                " copy, or remove the other names."
            )

    def refuse_not_offered(self) -> None:
        """Refuse hardware that this hypervisor does not have."""
        missing = offered.reasons(self.call.conn, self.call.definition(), host_name())
        if self.call.uuid is not None:
            missing += sources.missing_secrets(self.call.conn, self.call.definition(), host_name())
        if missing:
            raise LibvirtProblem(
                f"{self.call.name or self.call.uuid} cannot be built: {'; '.join(missing)}."
            )

    def refuse_old_variables(self) -> None:
        """Refuse to start a new domain with the UEFI variables of an earlier domain. libvirt finds
        this file by the name of the domain.
        """
        text = self.call.definition()
        path = (
            nvram_path(text, self.call.local and binding.is_system(self.call.conn))
            if nvram_path(text) is None
            else None
        )
        if path is not None and os.path.lexists(path):
            raise LibvirtProblem(
                f"{self.call.name} cannot be built on {host_name()}: {path} has the UEFI variables"
                " of an earlier domain of this name. Move that file away, or give the instance"
                " another name."
            )
