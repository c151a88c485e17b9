# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The comparison of folders, files, volumes, image contents and devices with one name on two hosts.

Private to the collection. Names prove nothing. A folder is the same if the destination sees a new
entry of the source in the folder. A volume is the same if libvirt of the destination has it at the
same path. An image is the same if its content is the same. A device is the same if both hosts
report the same worldwide name.
"""

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Callable
from typing import Any

from .._files import access, block_devices, digests
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, libvirt
from .._libvirt.xml import child_text, parse
from .._storage import backing, block_volumes, kinds
from .._storage.kinds import Form, MoveMethod
from .._storage.shared_storage import pool_id
from . import ownership
from .folder import Folder
from .move_record import MoveRecord

#: The mark of a device that the operator declares as shared; such a device needs no worldwide name.
DECLARED = "declared"

#: The seconds until the second look at a probe.
AGAIN = 0.3


class Sameness:
    """The comparison of a source, this host, with a destination.

    :param record: the record of the move. The record names each probe before the probe is made.
    """

    def __init__(
        self, record: MoveRecord, source: Any, destination: Any, save: Callable[[], object]
    ) -> None:
        self.record, self.source, self.destination, self.save = record, source, destination, save
        self.where = record["move"]["destination"]
        self._folders: dict[str, bool] = {}
        self._contents: dict[str, str] = {}

    # -- folders and files -------------------------------------------------------------------

    def file(self, path: str) -> bool:
        """Return True if a path is the same file on both hosts.

        Compare the folder of the path and the folder of the file behind all links.

        :raises LibvirtProblem: the comparison fails.
        """
        try:
            real = access.call(os.path.realpath, path)
        except access.Unresponsive as exc:
            raise LibvirtProblem(str(exc)) from exc
        return all(
            self.folder(folder)
            for folder in dict.fromkeys((os.path.dirname(path), os.path.dirname(real)))
        )

    def folder(self, folder: str) -> bool:
        """Return True if the destination sees a new entry of the source in a folder.

        :raises LibvirtProblem: the comparison fails.
        """
        if folder not in self._folders:
            self._folders[folder] = self._probe(folder)
        return self._folders[folder]

    def _probe(self, folder: str) -> bool:
        if not binding.is_local(self.record["source_uri"]):
            raise LibvirtProblem(
                f"whether {folder} is shared can be found out on the hypervisor only, and"
                f" {self.record['source_uri']} is another machine"
            )
        probe = os.path.join(
            folder, f"{ownership.TEMPORARY}probe-{self.record['uuid'][:8]}-{secrets.token_hex(6)}"
        )
        self.record["probes"].append(probe)
        self.save()
        try:
            access.call(os.mkdir, probe, 0o755)
        except OSError as exc:
            self.record["probes"].remove(probe)
            raise LibvirtProblem(
                f"the folder {folder} of its disks cannot be written: {exc.strerror}"
            ) from exc
        except access.Unresponsive as exc:
            raise LibvirtProblem(str(exc)) from exc
        try:
            # A second look, for a network file system that is slow to show new entries.
            for _attempt in range(2):
                if Folder(self.destination, probe).is_seen():
                    return True
                time.sleep(AGAIN)
            return False
        finally:
            self.drop_probe(probe)

    def drop_probe(self, probe: str) -> None:
        """Remove a probe of this call or of a killed call."""
        if ownership.drop_probe(probe) and probe in self.record["probes"]:
            self.record["probes"].remove(probe)

    # -- content -----------------------------------------------------------------------------

    def content(self, path: str) -> str:
        """Return ``same``, ``missing`` (the destination has no such file) or ``other``.

        :raises LibvirtProblem: the comparison fails.
        """
        if path not in self._contents:
            self._contents[path] = self._compare(path)
        return self._contents[path]

    def exists(self, path: str) -> bool:
        """Return True if the destination has a file at the path.

        :raises LibvirtProblem: libvirt of the destination cannot look.
        """
        return (
            Folder(self.destination, os.path.dirname(path)).stat(os.path.basename(path)) is not None
        )

    def _compare(self, path: str) -> str:
        folder, name = Folder(self.destination, os.path.dirname(path)), os.path.basename(path)
        status_there = folder.stat(name)
        if status_there is None:
            return "missing"
        try:
            length = access.call(os.stat, path).st_size
            if status_there["physical"] not in (None, length):
                return "other"
            digest_here = self._digest_here(path)
        except (OSError, access.Unresponsive) as exc:
            raise LibvirtProblem(f"{path} cannot be read here ({backing.reason_of(exc)})") from exc
        digest_there = folder.digest(name, self.record["move"].get("images_there") or ())
        if digest_there is None:
            return "missing"
        if digest_here is None or digest_there[0] is None:
            raise LibvirtProblem(f"{path} is being written to, so it cannot be compared")
        return "same" if digest_there[0] == digest_here else "other"

    def _digest_here(self, path: str) -> str | None:
        try:
            return digests.of_file(path)[0]
        except PermissionError:
            # libvirt may read files that a user in the group libvirt must not read.
            found = Folder(self.source, os.path.dirname(path)).digest(os.path.basename(path))
            return found and found[0]

    # -- volumes and devices -----------------------------------------------------------------

    def volume(self, pool: str, name: str, path: str, shared: bool) -> str | None:
        """Return the reason why a volume of a storage pool is another file at the destination; None
        for the same file.

        :param path: the file of the volume on this host.
        :param shared: True if the destination already has the volume; False if the move will copy
            it to that path.
        """
        try:
            storage_pool = self._refreshed(pool)
            root = parse(storage_pool.XMLDesc(0))
            kind = kinds.of_pool(root)
            if shared:
                path_there = storage_pool.storageVolLookupByName(name).path()
            elif kind.move is not MoveMethod.COPIED:
                return (
                    f"the storage pool {pool} of {self.where} is of the type {kind.name}, into"
                    " which nothing can be copied"
                )
            elif kind.form is Form.FOLDER:
                path_there = os.path.join(child_text(root, "target/path") or "/", name)
            else:
                path_there = block_volumes.path_in(root, name) or ""
        except LibvirtProblem as exc:
            return str(exc)
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_VOL:
                return (
                    f"the storage pool {pool} of {self.where} has no volume {name}: make it the"
                    " same pool there"
                )
            return (
                f"libvirt of {self.where} does not tell about the volume {pool}/{name}:"
                f" {binding.text_of(exc)}"
            )
        if os.path.normpath(path_there) != os.path.normpath(path):
            return (
                f"its volume {pool}/{name} is another file on {self.where}, {path_there} rather"
                f" than {path}: make it the same pool there"
            )
        return None

    def network_pool(self, pool: str) -> str | None:
        """Return the reason why a storage pool on the network is not proven the same at the
        destination; None if it is.
        """
        try:
            source_id = pool_id(parse(self.source.storagePoolLookupByName(pool).XMLDesc(0)))
            destination_id = pool_id(parse(self._refreshed(pool).XMLDesc(0)))
        except LibvirtProblem as exc:
            return str(exc)
        except libvirt.libvirtError as exc:
            return f"libvirt does not tell about the storage pool {pool}: {binding.text_of(exc)}"
        if source_id is None or source_id != destination_id:
            return (
                f"the storage pool {pool} is not seen to be the same on {self.where}"
                f" ({source_id or 'unknown'} here, {destination_id or 'unknown'} there): give it"
                " the same servers and the same name on them on both hosts"
            )
        return None

    def _refreshed(self, pool: str) -> Any:
        """Return a pool of the destination after a refresh, because other hosts may have made
        volumes in it.
        """
        try:
            storage_pool = self.destination.storagePoolLookupByName(pool)
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_STORAGE_POOL:
                raise LibvirtProblem(
                    f"the storage pool {pool} does not exist on {self.where}: define it there"
                ) from exc
            raise
        if not storage_pool.isActive():
            raise LibvirtProblem(
                f"the storage pool {pool} is not active on {self.where}: start it there (virsh"
                f" pool-start {shlex.quote(pool)})"
            )
        storage_pool.refresh(0)
        return storage_pool

    def device(self, path: str) -> str | None:
        """Return the reason why a device is not proven the same at the destination; None if it
        is.
        """
        named_there = (self.record["move"].get("devices_there") or {}).get(path)
        identity = block_devices.identity(path)
        if named_there == DECLARED or (identity is not None and identity == named_there):
            return None
        if identity is not None and named_there is not None:
            return (
                f"its device {path} is another one on {self.where} ({named_there} there, {identity}"
                " here)"
            )
        return (
            f"of its device {path} cannot be proven that {self.where} has the same one: run"
            " drover.compute.discover where both show the same WWID, or declare it with"
            " drover_shared_block_devices on both hosts"
        )
