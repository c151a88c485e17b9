# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The move of a disk of a domain to another storage of its host, step by step.

Private to the collection. While the guest runs, libvirt copies the disk and the guest's writes
during the copy (virDomainBlockCopy), and then switches over. If the guest is off, qemu-img copies
the disk. At each moment the definition names the file that has all data. The record names each file
before the file is made; a call that finds the record continues from the state that libvirt shows.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Literal, TypedDict

from ansible.module_utils.basic import AnsibleModule

from .._domain import device_xml, hotplug
from .._files import access
from .._images import images
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, LibvirtSilent, host_name, libvirt
from .._libvirt.xml import child_text, parse
from .._orders import orders
from .._orders.records import Records
from .._ownership import ownership
from .._ownership.move_record import KeptFile
from .._storage import backing as _backing
from .._storage import block_volumes, kinds
from .._storage.kinds import Form, Source
from . import destination as destinations
from . import disk as disks
from . import place as places
from . import record as records
from .destination import DiskImage
from .disk import MovedDisk
from .place import DiskPlace

#: Seconds between two looks at a job; for an aborted job to end.
POLL, ABORT = 0.1, 60

#: The results of a move: nothing to do, the copy is under way, the guest can be switched over to
#: it, the disk has moved, the move was given up, no move existed.
Status = Literal["unchanged", "copying", "ready", "moved", "aborted", "none"]
UNCHANGED: Status = "unchanged"
COPYING: Status = "copying"
READY: Status = "ready"
MOVED: Status = "moved"
ABORTED: Status = "aborted"
NONE: Status = "none"


class Step(TypedDict):
    """The result of a step, for the result of the module."""

    pool: str | None
    status: Status
    changed: bool
    source: str | None
    destination: str | None
    percent: int | None
    seconds: float | None


class DiskMoveSteps:
    """One call for one disk.

    :param params: target, pool, wait, timeout, bandwidth_mib, order, whole, hold, goes_on,
        looked_up and used_elsewhere, as the module has them.
    """

    def __init__(self, module: AnsibleModule, conn: Any, domain: Any) -> None:
        self.module, self.conn, self.domain, self.params = module, conn, domain, module.params
        self.pretend = module.check_mode
        #: The destination of the disk, None for an abort.
        self.place: DiskPlace | None = None
        self.removed: list[str] = []
        self.kept: list[KeptFile] = []

    # -- the two orders ------------------------------------------------------------------------

    def move(self) -> Step:
        """Go on with the move as far as ``wait`` allows.

        :raises LibvirtProblem: it is refused, or it failed.
        """
        record = records.read(self.domain)
        if record is None and self.params["goes_on"]:
            raise LibvirtProblem(
                f"The move of the disk {self.params['target']} of {self.domain.name()} on"
                f" {host_name()} was ended by another run."
            )
        if record is not None and self._is_ours(record):
            refusal = self._end_if_split(record)
            if refusal and self.pretend:
                return self._make_step(ABORTED, record["source"], record["destination"])
            if refusal:
                raise LibvirtProblem(refusal)
        disk = MovedDisk(self.domain, self.params["target"])
        self.place = place = self._choose_place(disk)
        path = place.name
        if record is not None:
            if record["host"] != host_name():
                # The instance was restarted here from its definition; the files are the other
                # host's.
                self.kept.append(
                    {
                        "path": record["destination"],
                        "reason": f"a move that {record['host']} had begun has made it",
                    }
                )
                self._clear()
                record = None
            elif (record["target"], record["destination"]) != (self.params["target"], path):
                raise LibvirtProblem(
                    f"The disk {record['target']} of {disk.where} is being moved to"
                    f" {record['destination']}: run the playbook for that disk and destination"
                    " again, which goes on, or abort it with drover_abort=true."
                )
        if record is not None:
            if not self.pretend and record["order"] != (self.params["order"] or ""):
                # A later abort of the move withdraws the order that is in the record.
                record["order"] = self.params["order"] or ""
                records.write(self.domain, record)
            return self._go_on(disk, record)
        if set(disk.sources) == {path}:
            if place.volume not in (None, disk.volume):
                raise LibvirtProblem(
                    f"The disk {disk.target} of {disk.where} is {path}, and the volume of the pool"
                    f" {self.params['pool']} would have the same name: two clusters are not told"
                    " apart by it. It is not moved."
                )
            return self._make_step(UNCHANGED, path, path)
        return self._begin_move(disk, place)

    def abort(self) -> Step:
        """Give an unfinished move up: the guest stays on the old disk, and the copy goes."""
        record = records.read(self.domain)
        if record is None or not self._is_ours(record):
            return self._make_step(NONE)
        if not self.pretend:
            orders.withdraw(Records(), self.domain.UUIDString(), [record["order"]])
        if self._end_if_split(record):
            return self._make_step(
                ABORTED, record["source"], record["destination"], records.volume_of(record, "made")
            )
        disk = MovedDisk(self.domain, record["target"])
        if record["destination"] in disk.sources:
            # The abort came too late: the disk has moved, or half of it.
            return self._finish(record)
        if not self.pretend:
            self._end_job(disk, record)
            self._undo(record)
        return self._make_step(
            ABORTED, record["source"], record["destination"], records.volume_of(record, "made")
        )

    # -- steps ---------------------------------------------------------------------------------

    def _choose_place(self, disk: MovedDisk) -> DiskPlace:
        if disk.facts["source"] is None or (
            not kinds.of_disk(disk.facts).is_image and disk.volume is None
        ):
            disk.refuse()
        if destinations.is_of_volumes(self.conn, self.params["pool"]):
            return places.of_volume(
                self.conn, self.params["pool"], f"{self.domain.UUIDString()}-{disk.target}"
            )
        folder = destinations.folder(self.conn, self.params["pool"])
        return DiskPlace(os.path.join(folder, os.path.basename(str(disk.facts["source"]))))

    def _is_ours(self, record: records.Record) -> bool:
        return bool(record["host"] == host_name() and record["target"] == self.params["target"])

    def _end_if_split(self, record: records.Record) -> str | None:
        """End the move of a disk that was detached during the move from the running guest, the
        definition or both.

        :returns: the outcome in words; None when the disk is in both, or in the definition of a
            guest that is off.
        """
        disk = MovedDisk(self.domain, record["target"], partly=True)
        if disk.split is None:
            return None
        is_there = record["destination"] in disk.sources
        place = record["destination"] if is_there else record["source"]
        if not self.pretend:
            if is_there:
                self.kept.append(
                    {
                        "path": record["source"],
                        "reason": (
                            f"its data are in {record['destination']} since the disk has moved"
                        ),
                    }
                )
                self._clear()
            else:
                self._end_job(disk, record)
                self._undo(record)
        return (
            f"The disk {disk.target} of {disk.where} was detached from {disk.split} while it was"
            f" moved, so the move was given up. All its data are in {place}. Attach or detach it in"
            " both, with virsh attach-disk or detach-disk and --live or --config, then run this"
            f" again if it is still to be moved.{self._words_of_kept()}"
        )

    def _destination_of(self, record: records.Record) -> DiskPlace:
        """Return the destination of a record."""
        volume = records.volume_of(record, "made")
        return places.of_volume(self.conn, *volume) if volume else DiskPlace(record["destination"])

    def _go_on(self, disk: MovedDisk, record: records.Record) -> Step:
        """Continue the work of an earlier call from the state that libvirt shows."""
        mirror = disk.mirror
        if mirror is not None:
            if disks.copied_to(mirror) != record["destination"]:
                raise LibvirtProblem(
                    f"A block job that drover did not begin works on the disk {disk.target} of"
                    f" {disk.where}: wait for its end, or end it with virsh blockjob. Then run this"
                    " again."
                )
            if self.pretend:
                return self._make_step(COPYING, record["source"], record["destination"])
            if not disks.is_ending(mirror):
                return self._follow_job(record)
            self._wait_for_end(disk, record)
            disk = MovedDisk(self.domain, disk.target)
        if record["destination"] in disk.sources:
            return self._finish(record)
        if set(disk.sources) != {record["source"]}:
            raise LibvirtProblem(
                f"The disk {disk.target} of {disk.where} is {' and '.join(map(str, disk.sources))},"
                f" neither {record['source']} nor the copy of it that was begun as"
                f" {record['destination']}. Nothing was done: see who changed it; virsh edit"
                f" removes the record {records.ELEMENT} of the metadata."
            )
        if self.params["goes_on"]:
            # The job that this run has begun is gone: its storage is full, or the guest is off.
            self._undo(record)
            state = "is off by now" if disk.live is None else "has lost the job"
            raise LibvirtProblem(
                f"{disk.where} {state}, before its disk {disk.target} was copied: a full or broken"
                f" storage ends the job, see /var/log/libvirt there. The disk is {record['source']}"
                f" as before.{self._words_of_kept()}"
            )
        if self.pretend:
            return self._make_step(MOVED, record["source"], record["destination"])
        self._undo(record)
        if self.kept:
            raise LibvirtProblem(
                f"A move of the disk {disk.target} of {disk.where} was cut"
                f" off.{self._words_of_kept()} Remove it, then run this again."
            )
        return self._begin_move(MovedDisk(self.domain, disk.target), self._destination_of(record))

    def _begin_move(self, disk: MovedDisk, place: DiskPlace) -> Step:
        disk.refuse()
        facts, path = disk.facts, place.name
        source = str(facts["source"])
        if disk.live is None and Source.SERVER in (kinds.of_disk(facts).source, place.source):
            # This check comes before the size is read: libvirt does not read the size of an image
            # in Ceph while the guest is off.
            raise LibvirtProblem(
                f"The disk {disk.target} of {disk.where} is not moved: the guest is off, and a disk"
                " is moved into Ceph or out of it while its guest runs, as nothing would keep"
                " somebody from starting the guest during the copy. Start it, then run this again."
            )
        image = self._image(disk)
        if place.volume:
            image = image._replace(needs=image.size, backing=None, backing_format=None)
            places.refuse(self.conn, self.domain.UUIDString(), place)
            places.refuse_without_space(self.conn, place, image.size)
        else:
            destinations.refuse(self.conn, path, image, self.params["looked_up"])
        owner = disk.owner(self.domain.name())
        if self.pretend:
            return self._make_step(MOVED, source, path)
        record: records.Record = {
            "host": host_name(),
            "target": disk.target,
            "source": source,
            "destination": path,
            "part": "" if place.volume else images.part_name(path),
            "order": self.params["order"] or "",
            "made": None,
            "made_volume": [*place.volume, None] if place.volume else None,
            "old": None if owner.volume else destinations.identity(source),
            "old_volume": (
                [*owner.volume, block_volumes.key_of(self.conn, *owner.volume)]
                if owner.volume
                else None
            ),
            # The reason why the old file is the instance's own, found while the file is still the
            # disk.
            "by_use": owner.by_use,
            "refused": owner.refused,
            "began": time.time(),
        }
        records.write(self.domain, record)
        try:
            self._make_image(record, image)
            if disk.live is None:
                self._convert(record, image)
                return self._switch_definition(record)
            if not place.volume:
                self._put_in_place(record)
            self._start_copy(record, image)
        except LibvirtSilent:
            # It is not known how much of the request libvirt carries out.
            raise
        except (LibvirtProblem, images.ImageProblem, libvirt.libvirtError, OSError):
            self._give_up(record)
            raise
        return self._follow_job(record)

    def _make_image(self, record: records.Record, image: DiskImage) -> None:
        """Make the empty image under its temporary name, or the volume."""
        volume = record.get("made_volume")
        if volume:
            try:
                volume[2], size = places.create(self.conn, self._destination_of(record), image.size)
            except LibvirtSilent:
                raise
            except libvirt.libvirtError:
                # Then an object of that name is not the move's.
                volume[2] = records.NO_KEY
                raise
            records.write(self.domain, record)
            if size != image.size:
                raise LibvirtProblem(
                    f"The storage pool {volume[0]} on {host_name()} makes a volume of {size} bytes"
                    f" for the disk {record['target']}, which has {image.size}, and the copy must"
                    " be as large as the disk: make the disk larger first, with"
                    " drover.compute.instance_disk."
                )
            return
        part = record["part"]
        record["made"] = destinations.begin_part(part)
        records.write(self.domain, record)
        backing = (image.backing, image.backing_format or "raw") if image.backing else None
        images.make_empty(self.module, part, image.format, image.size, image.options, backing)
        if not image.is_device:
            destinations.like(part, image.path)

    def _put_in_place(self, record: records.Record) -> None:
        images.put_in_place(record["part"], record["destination"])
        ownership.drop_temporary(record["part"])

    def _image(self, disk: MovedDisk) -> DiskImage:
        facts = disk.facts
        kind = kinds.of_disk(facts).source
        if kind is Source.SERVER:
            return destinations.image_on_network(self.domain, disk.target, str(facts["source"]))
        return destinations.image(
            self.module,
            str(facts["source"]),
            facts["format"] or "",
            kind is Source.DEVICE,
            self.params["whole"],
            bool(self.domain.isActive()),
        )

    # -- while the guest runs --------------------------------------------------------------------

    def _start_copy(self, record: records.Record, image: DiskImage) -> None:
        """Have libvirt begin the copy."""
        place = self._destination_of(record)
        text = (
            f"<disk type='file'><source file={_quoted(record['destination'])}/><driver"
            f" type='{image.format}'/></disk>"
        )
        if place.volume:
            text = device_xml.text_of(place.xml)
        flags = (
            libvirt.VIR_DOMAIN_BLOCK_COPY_REUSE_EXT | libvirt.VIR_DOMAIN_BLOCK_COPY_TRANSIENT_JOB
        )
        if image.backing:
            flags |= libvirt.VIR_DOMAIN_BLOCK_COPY_SHALLOW
        bandwidth = self.params["bandwidth_mib"]
        given = {libvirt.VIR_DOMAIN_BLOCK_COPY_BANDWIDTH: bandwidth << 20} if bandwidth else {}
        self.domain.blockCopy(record["target"], text, given, flags)

    def _follow_job(self, record: records.Record) -> Step:
        """Watch the job for up to ``wait`` seconds. When both disks are the same, switch over; with
        ``hold`` only report it.
        """
        deadline = time.monotonic() + self.params["wait"]
        while True:
            why = self._end_if_split(record)
            if why:
                raise LibvirtProblem(why)
            disk = MovedDisk(self.domain, record["target"])
            if disk.mirror is None or disks.is_ending(disk.mirror):
                self.params["goes_on"] = True
                return self._go_on(disk, record)
            if disk.mirror.get("ready") == "yes":
                if self.params["hold"]:
                    return self._make_step(READY, record["source"], record["destination"])
                self._pivot(record)
                return self._finish(record)
            if time.monotonic() >= deadline:
                info = self.domain.blockJobInfo(record["target"], 0) or {}
                percent = int(100 * info.get("cur", 0) / info["end"]) if info.get("end") else 0
                return {
                    **self._make_step(COPYING, record["source"], record["destination"]),
                    "percent": min(percent, 99),
                }
            time.sleep(POLL)

    def _pivot(self, record: records.Record) -> None:
        """Switch over. If libvirt refuses, or another file has the name of the copy, the guest
        stays on the old disk and the copy goes.
        """
        lost = self._why_not_copy(record)
        if lost:
            disk = MovedDisk(self.domain, record["target"])
            self._end_job(disk, record)
            self._undo(record)
            raise LibvirtProblem(
                f"The disk {record['target']} of {disk.where} was not switched over: {lost}. The"
                f" guest runs on with {record['source']}.{self._words_of_kept()} Find out who has"
                " moved or removed the copy, then run this again."
            )
        try:
            self.domain.blockJobAbort(record["target"], libvirt.VIR_DOMAIN_BLOCK_JOB_ABORT_PIVOT)
        except LibvirtSilent:
            raise
        except libvirt.libvirtError as exc:
            disk = MovedDisk(self.domain, record["target"])
            if record["destination"] in disk.sources:
                return
            self._end_job(disk, record)
            self._undo(record)
            raise LibvirtProblem(
                f"libvirt did not switch the disk {record['target']} of {disk.where} over to"
                f" {record['destination']}: {binding.text_of(exc)}. The guest runs on with"
                f" {record['source']}.{self._words_of_kept()}"
            ) from exc

    def _end_job(self, disk: MovedDisk, record: records.Record) -> None:
        """End the copy, without a switch."""
        if disk.mirror is None:
            return
        if disks.copied_to(disk.mirror) != record["destination"]:
            raise LibvirtProblem(
                f"Another block job works on the disk {disk.target} of {disk.where}, so nothing was"
                " done: end it with virsh blockjob."
            )
        if not disks.is_ending(disk.mirror):
            self.domain.blockJobAbort(disk.target, 0)
        self._wait_for_end(disk, record)
        if record["destination"] in MovedDisk(self.domain, disk.target, partly=True).sources:
            raise LibvirtProblem(
                f"The disk {disk.target} of {disk.where} was switched over just now: run this"
                " again, which ends the move."
            )

    def _wait_for_end(self, disk: MovedDisk, record: records.Record) -> None:
        """Wait for the end of the job."""
        deadline = time.monotonic() + ABORT
        while MovedDisk(self.domain, disk.target, partly=True).mirror is not None:
            if time.monotonic() > deadline:
                raise LibvirtProblem(
                    f"The copy of the disk {disk.target} of {disk.where} to {record['destination']}"
                    f" did not end within {ABORT} s: QEMU has not closed it, as where its storage"
                    " is full or does not answer. Run this again once that is mended."
                )
            time.sleep(POLL)

    # -- while it is off -------------------------------------------------------------------------

    def _convert(self, record: records.Record, image: DiskImage) -> None:
        """Copy the disk with qemu-img, which holds a lock on it that keeps the guest from
        starting.
        """
        word, uuid, notes = abort_word(record["target"]), self.domain.UUIDString(), Records()
        notes.forget_abort(uuid)
        deadline = time.monotonic() + self.params["timeout"]

        def why_not() -> str | None:
            if notes.abort_asked(uuid, word):
                return "it was aborted"
            return (
                f"it did not end within {self.params['timeout']} s"
                if time.monotonic() > deadline
                else None
            )

        if record.get("made_volume"):
            images.copy_to_device(
                self.module,
                (image.path, image.format),
                record["destination"],
                self.params["bandwidth_mib"],
                why_not,
            )
            return
        backing = (image.backing, image.backing_format or "raw") if image.backing else None
        images.copy_image(
            self.module,
            (image.path, image.format),
            record["part"],
            image.options,
            backing,
            self.params["bandwidth_mib"],
            why_not,
        )
        record["made"] = destinations.identity(record["part"])
        records.write(self.domain, record)
        self._put_in_place(record)

    def _switch_definition(self, record: records.Record) -> Step:
        """Have the definition name the copy, if the guest is still off."""
        disk, lost = MovedDisk(self.domain, record["target"]), self._why_not_copy(record)
        if lost:
            raise LibvirtProblem(
                f"The disk {disk.target} of {disk.where} stays {record['source']}: {lost}. Run this"
                " again."
            )
        if disk.live is None:
            disk.define(self._destination_of(record))
            disk = MovedDisk(self.domain, record["target"])
        if disk.live is not None and record["destination"] not in disk.sources[:1]:
            # Another process has started it with the old disk.
            disk.define_as_it_runs()
            raise LibvirtProblem(
                f"{disk.where} was started while its disk {disk.target} was copied, so it keeps"
                f" {record['source']}: run this again."
            )
        return self._finish(record)

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self, record: records.Record) -> Step:
        """Finish a move after the switch: make the definition name the copy, and remove the old
        file if it is provably the instance's alone.
        """
        if self.pretend:
            return self._make_step(MOVED, record["source"], record["destination"])
        disk = MovedDisk(self.domain, record["target"])
        if disk.sources[-1] == record["source"]:
            disk.define(self._destination_of(record))
            disk = MovedDisk(self.domain, record["target"])
        if set(disk.sources) != {record["destination"]}:
            raise LibvirtProblem(
                f"The disk {disk.target} of {disk.where} is {' and '.join(map(str, disk.sources))},"
                f" not {record['destination']} alone. No file was removed: run this again."
            )
        # If the copy does not have its name, the old file may be the only rest of the disk.
        refused = self._why_not_copy(record) or record.get("refused")
        old = ownership.RemovalCandidate(
            record["source"], record.get("by_use") is True, refused, records.inode_of(record, "old")
        )
        old.volume, old.key = records.volume_of(record, "old"), records.key_of(record, "old")
        self._remove_file(old)
        self._refresh(record)
        self._clear()
        done = self._make_step(
            MOVED, record["source"], record["destination"], records.volume_of(record, "made")
        )
        return {**done, "seconds": max(0.0, time.time() - record["began"])}

    def _why_not_copy(self, record: records.Record) -> str | None:
        """Return the reason why the file at the destination is not the copy that was made, None if
        it is. A process continues to write to a file that has lost its name.
        """
        path = record["destination"]
        if record.get("made_volume"):
            return places.why_not(
                self.conn, self._destination_of(record), records.key_of(record, "made")
            )
        try:
            identity = access.call(destinations.identity, path)
        except FileNotFoundError:
            return f"the copy is not at {path} any more"
        except (OSError, access.Unresponsive) as exc:
            return f"whether the copy is at {path} cannot be told ({_backing.reason_of(exc)})"
        return (
            None
            if record["made"] == identity
            else f"{path} is not the file any more to which it was copied"
        )

    def _give_up(self, record: records.Record) -> None:
        """Undo the beginning after a failure, unless libvirt shows that the disk has moved."""
        with contextlib.suppress(LibvirtProblem, libvirt.libvirtError, OSError):
            disk = MovedDisk(self.domain, record["target"])
            if record["destination"] not in disk.sources:
                self._end_job(disk, record)
                self._undo(record)

    def _undo(self, record: records.Record) -> None:
        """Remove the unused copy if it is provably the move's, and remove the record."""
        if self.pretend:
            return
        if record.get("made_volume"):
            self._undo_volume(record)
            return
        if ownership.why_locked(record["part"]) is None or not os.path.lexists(record["part"]):
            ownership.drop_temporary(record["part"])
        else:
            raise LibvirtProblem(
                f"A process still writes to {record['part']} on {host_name()}, the unfinished copy"
                f" of the disk {record['target']}: wait for its end, then run this again."
            )
        made = records.inode_of(record, "made")
        why = None if made else "nothing proves that this move has made it"
        self._remove_file(ownership.RemovalCandidate(record["destination"], True, why, made))
        self._refresh(record)
        self._clear()

    def _undo_volume(self, record: records.Record) -> None:
        place, key = self._destination_of(record), records.key_of(record, "made")
        # A missing key means that the move was cut off while it made the volume, which did not
        # exist before: then its name proves its owner.
        if places.is_there(self.conn, place):
            self._remove_file(
                ownership.RemovalCandidate(place.name, True, volume=place.volume, key=key)
            )
        self._clear()

    def _remove_file(self, candidate: ownership.RemovalCandidate) -> None:
        """Remove a file without any user, this domain included; else the file stays and is
        named.
        """
        # No uuid: then the needs of this domain count too. The name of a volume proves nothing
        # without it.
        uuid = self.domain.UUIDString() if candidate.volume else None
        if uuid is not None and _names_source(self.domain, candidate.path):
            candidate.refused = candidate.refused or "the domain itself has it as a disk"
        own = ownership.Ownership(
            self.conn,
            uuid,
            self.domain.name() if uuid else None,
            [candidate],
            self.params["used_elsewhere"],
        )
        own.sort_out()
        own.remove(patient=True)
        self.removed += own.removed
        self.kept += own.kept

    def _clear(self) -> None:
        if not self.pretend:
            records.clear(self.domain)

    def _refresh(self, record: records.Record) -> None:
        """Refresh libvirt's pools, so that libvirt sees their present files."""
        folders = {
            os.path.dirname(path)
            for path in (record["source"], record["destination"])
            if os.path.isabs(path)
        }
        with contextlib.suppress(libvirt.libvirtError):
            for pool in self.conn.listAllStoragePools(
                libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE
            ):
                root = parse(pool.XMLDesc(0))
                if (
                    kinds.of_pool(root).form is Form.FOLDER
                    and os.path.normpath(child_text(root, "target/path") or "/") in folders
                ):
                    pool.refresh(0)

    def _words_of_kept(self) -> str:
        return "".join(f" The file {each['path']} stays: {each['reason']}." for each in self.kept)

    def _make_step(
        self,
        status: Status,
        source: str | None = None,
        destination: str | None = None,
        volume: tuple[str, str] | None = None,
    ) -> Step:
        return {
            "pool": (
                self.params["pool"]
                or (
                    volume[0]
                    if volume
                    else None
                    if destination is None
                    else os.path.dirname(destination)
                )
            ),
            "status": status,
            "changed": status not in (UNCHANGED, NONE),
            "source": source,
            "destination": destination,
            "percent": 100 if status in (MOVED, UNCHANGED) else None,
            "seconds": None,
        }


def abort_word(target: str) -> str:
    """Return the word that requests the abort of a copy, for Records.ask_abort()."""
    return f"disk {target}"


def _names_source(domain: Any, source: str) -> bool:
    """Return True if a disk of the domain has this source, in the running guest or in the
    definition.
    """
    forms = [root for root in hotplug.forms_of(domain) if root is not None]
    return any(
        disks.parse_disk(each)["source"] == source
        for root in forms
        for each in root.findall("devices/disk")
    )


def _quoted(path: str) -> str:
    text = path
    for letter, name in (("&", "amp"), ("<", "lt"), ("'", "apos")):
        text = text.replace(letter, f"&{name};")
    return f"'{text}'"
