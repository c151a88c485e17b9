# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files and volumes of a new domain."""

from __future__ import annotations

import base64
import binascii
import functools
from collections.abc import Callable, Mapping
from typing import Any

from .._images import images, notes, rbd_images
from .._libvirt.binding import LibvirtProblem
from .._ownership import ownership
from .._storage import block_volumes, volumes
from .domain_call import DomainCall
from .refusals import Refusals


class NewFiles:
    """The disks and the seed of a new domain that do not exist yet."""

    def __init__(self, call: DomainCall, refusals: Refusals) -> None:
        self.call, self._refusals = call, refusals

    def to_make(self) -> list[tuple[str, Callable[[], ownership.RemovalCandidate]]]:
        """Return ``[(path, function that creates it)]`` for the missing files."""
        creations: list[tuple[str, Callable[[], ownership.RemovalCandidate]]] = []
        for disk in self.call.params["disks"]:
            if disk["pool"]:
                creations += self._volume_to_make(disk)
                continue
            if disk["size_gb"] is not None and disk["size_gb"] < 1:
                raise images.ImageProblem(
                    f"The disk {disk['path']} cannot have {disk['size_gb']} GiB: size_gb is 1 or"
                    " more."
                )
            if disk["backing_file"] and disk["format"] != "qcow2":
                raise images.ImageProblem(
                    f"The disk {disk['path']} is {disk['format']}, but only qcow2 can have a"
                    " backing_file."
                )
            self._refusals.refuse_used(disk["path"])
            if disk["backing_file"]:
                self._refusals.refuse_written(disk["backing_file"], disk["path"])
            if images.check_disk(self.call.module, disk):
                creations.append(
                    (disk["path"], functools.partial(images.make_disk, self.call.module, disk))
                )
        seed = self.call.params["seed"]
        if seed:
            self._refusals.refuse_used(seed["path"])
            try:
                content = base64.b64decode(seed["content_b64"], validate=True)
            except (binascii.Error, ValueError) as exc:
                raise images.ImageProblem(
                    f"The content of the seed {seed['path']} is not Base64: {exc}."
                ) from exc
            if images.check_seed(seed["path"], content):
                creations.append(
                    (seed["path"], functools.partial(images.make_seed, seed["path"], content))
                )
        return creations

    def _volume_to_make(
        self, disk: Mapping[str, Any]
    ) -> list[tuple[str, Callable[[], ownership.RemovalCandidate]]]:
        """Return the list of to_make() for one volume."""
        place, image, digits = (disk["pool"], disk["volume"]), None, None
        if disk["backing_file"]:
            self._refusals.refuse_written(disk["backing_file"], "/".join(place))
            image = images.check_source(
                self.call.module, disk["backing_file"], disk["backing_format"], disk["size_gb"]
            )
            digits = (
                notes.digits_of(disk["backing_file"])
                if rbd_images.can_clone(self.call.conn, place[0])
                else None
            )
        self._refusals.refuse_used_device(place)
        make: list[tuple[str, Callable[[], ownership.RemovalCandidate]]] = []
        is_clone = image is not None and self._is_clone(place)
        if volumes.check(
            self.call.conn,
            *place,
            disk["size_gb"],
            self.call.uuid,
            functools.partial(self._is_unfinished, place),
            is_clone,
        ):
            making = functools.partial(self._make_volume, place, disk["size_gb"])
            if image is not None and digits:
                making = functools.partial(
                    self._clone_volume, place, disk["size_gb"], disk["backing_file"], image, digits
                )
            make.append(("/".join(place), making))
        if image is not None:
            filling = functools.partial(
                self._fill_volume, place, disk["size_gb"], disk["backing_file"], image
            )
            make.append((f"{'/'.join(place)} from {disk['backing_file']}", filling))
        return make

    def _is_clone(self, place: tuple[str, str]) -> bool:
        return self.call.unfinished is not None and self.call.unfinished.is_clone(place)

    def _is_unfinished(self, place: tuple[str, str], key: str) -> bool:
        return self.call.unfinished is not None and self.call.unfinished.has(place, key)

    def _make_volume(self, place: tuple[str, str], size_gb: int) -> ownership.RemovalCandidate:
        if self.call.unfinished is not None:
            self.call.unfinished.begin(place)
        volumes.make(self.call.conn, *place, size_gb)
        if self.call.unfinished is not None:
            self.call.unfinished.made(place, block_volumes.key_of(self.call.conn, *place))
        return ownership.RemovalCandidate("/".join(place), by_use=True, volume=place)

    def _clone_volume(
        self, place: tuple[str, str], size_gb: int, file: str, image: str, digits: str
    ) -> ownership.RemovalCandidate:
        """Make a volume as a clone of its image, or make an empty volume for a copy of the
        image.
        """
        try:
            source = rbd_images.bring(
                self.call.conn,
                place[0],
                digits,
                file,
                image,
                images.image_info(self.call.module, file)["virtual-size"],
            )
            if self.call.unfinished is not None:
                self.call.unfinished.begin(place, clone=True)
            rbd_images.clone(self.call.conn, *place, source)
        except LibvirtProblem as exc:
            made = self._make_volume(place, size_gb)
            self.call.module.warn(
                f"{file} is copied into {'/'.join(place)}, which takes longer and more space than a"
                f" clone: {exc}"
            )
            return made
        return ownership.RemovalCandidate("/".join(place), by_use=True, volume=place)

    def _fill_volume(
        self, place: tuple[str, str], size_gb: int, file: str, image: str
    ) -> ownership.RemovalCandidate:
        """Copy the image into a volume, or give the clone of an image its size."""
        if self.call.unfinished is not None and self._is_clone(place):
            if rbd_images.finish(self.call.conn, *place, size_gb):
                return ownership.RemovalCandidate("/".join(place), by_use=True, volume=place)
            # From here on the volume is not a clone with all its data.
            self.call.unfinished.begin(place)
        volumes.fill(self.call.conn, *place, file, image)
        return ownership.RemovalCandidate("/".join(place), by_use=True, volume=place)
