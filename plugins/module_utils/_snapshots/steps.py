# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The steps to make a snapshot of a domain, to delete it, and to revert to it.

Private to the collection. The images show the work of earlier runs; no note is needed. The next run
continues the work of an interrupted run. The record of a snapshot is removed last.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict
from xml.etree.ElementTree import Element

from ansible.module_utils.basic import AnsibleModule

from .._domain import power
from .._domain.definition import has_written_image, parse_disk
from .._domain.hotplug import forms_of
from .._images import contents, layers
from .._images import images as _images
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._ownership import ownership as _ownership
from .._ownership.move_record import KeptFile
from .._ownership.needs import Needs, look
from .._ownership.ownership import Ownership, RemovalCandidate
from .._storage import kinds
from . import checkpoints
from . import snapshots as _snapshots
from .snapshots import Image, Snapshot

AGENT = "org.qemu.guest_agent.0"
#: libvirt's error codes if the agent of a guest does not carry out a request.
_AGENT_ERRORS = (
    "VIR_ERR_AGENT_UNRESPONSIVE",
    "VIR_ERR_AGENT_UNSYNCED",
    "VIR_ERR_AGENT_COMMAND_TIMEOUT",
    "VIR_ERR_AGENT_COMMAND_FAILED",
)
_WITH_OPERATOR = "use virsh snapshot-revert, or restore from a backup"
#: The playbook for snapshots on the command line.
PLAYBOOK = "drover.compute.instance_snapshot"
MERGED_BEFORE = (
    "no disk has it any more, and nothing proves that its content was merged; remove it when nobody"
    " wants that"
)
DISCARDED = "the guest wrote to it until the revert; remove it when nobody wants its content back"


class Told(TypedDict):
    """The part of the result of a call about its completed work."""

    #: None if no snapshot was made.
    consistency: Literal["off", "quiesced", "crash"] | None
    #: The reason why the file systems of the guest were not quiesced.
    consistency_reason: str | None
    removed_files: list[str]
    kept_files: list[KeptFile]


class Merge(TypedDict):
    """The images of a disk to merge."""

    target: str
    base: Image
    #: Paths.
    chain: list[str]
    #: None if it is already merged.
    overlay: str | None
    #: The image above the overlay.
    upper: str | None


class Steps:
    """The work of one call on one domain.

    :ivar domain: the domain; the caller sets it before any other call.
    :ivar begun: True if the call has changed anything.
    :ivar told: the part of the result about the completed work.
    :ivar foreseen: the expected snapshots, for check mode.
    """

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self._module, self._conn, self._params = module, conn, module.params
        self.domain: Any = None
        self.begun = False
        self.told: Told = {
            "consistency": None,
            "consistency_reason": None,
            "removed_files": [],
            "kept_files": [],
        }
        self.foreseen: list[_snapshots.SnapshotFacts] = []
        self._deadline = time.monotonic() + self._params["timeout"]

    def carry_out(self, state: str, snapshots: Sequence[Snapshot]) -> bool:
        """Bring the snapshot to a state; return True if something was changed."""
        name = self._params["snapshot"]
        snapshot = next((each for each in snapshots if each.name == name), None)
        self.foreseen = [each.facts() for each in snapshots]
        if state == "present":
            return snapshot is None and self._make_snapshot(name)
        if state == "absent":
            if snapshot is None:
                return False
            self.foreseen = [each.facts() for each in snapshots if each.name != name]
            return self._delete(snapshot, snapshots)
        if snapshot is None:
            names = ", ".join(each.name for each in snapshots) or "none"
            raise LibvirtProblem(
                f"{self._name} has no snapshot {name!r}: it has {names}. Nothing was changed."
            )
        return self._revert(snapshot, snapshots)

    @property
    def _name(self) -> str:
        return f"{self.domain.name()} on {host_name()}"

    @property
    def _real_run(self) -> bool:
        return not self._module.check_mode

    def _refuse_domain(self) -> None:
        """Refuse a domain if its disks cannot be changed for good."""
        if not self.domain.isPersistent():
            raise LibvirtProblem(
                f"{self._name} is transient: libvirt forgets it, and its snapshots, once it is off."
                " Define it there first."
            )
        if self.domain.hasManagedSaveImage(0):
            raise LibvirtProblem(
                f"{self._name} has its memory saved, and would start with the disks that it had"
                " then: start it, or drop the image with virsh managedsave-remove."
            )

    # -- present --------------------------------------------------------------------------------

    def _make_snapshot(self, name: str) -> bool:
        if not _snapshots.NAME.fullmatch(name):
            raise LibvirtProblem(
                f"{name!r} cannot be the name of a snapshot: it has {_snapshots.NAME_RULE}. Nothing"
                " was changed"
            )
        self._refuse_domain()
        live, config = forms_of(self.domain)
        disks, others = self._disks(config, live)
        uuid, number = self._params["uuid"], secrets.token_hex(4)
        overlays = {
            target: _snapshots.overlay_path(image[0], uuid, target, name, number)
            for target, image in disks.items()
        }
        for path in overlays.values():
            if len(os.path.basename(path)) > 255 or os.path.lexists(path):
                raise LibvirtProblem(
                    f"the image {path} cannot be made on {host_name()}: give the snapshot another,"
                    " or a shorter, name"
                )
        reason = None if live is None else _why_not_quiesced(live, power.state_of(self.domain))
        if self._real_run:
            self.begun = True
            reason = self._create_snapshot(name, overlays, others, live is not None, reason)
        self.told["consistency"] = (
            "off" if live is None else "quiesced" if reason is None else "crash"
        )
        self.told["consistency_reason"] = reason
        bases = [
            _snapshots.ImageFacts(target=target, path=image[0], format=image[1])
            for target, image in sorted(disks.items())
        ]
        parent = next((each["name"] for each in self.foreseen if each["current"]), None)
        for each in self.foreseen:
            each["current"] = False
        self.foreseen.append(
            {
                "name": name,
                "kind": _snapshots.EXTERNAL,
                "created_at": int(time.time()),
                "state": "shutoff" if live is None else "disk-snapshot",
                "parent": parent,
                "description": self._params["description"],
                "current": True,
                "disks": bases,
            }
        )
        return True

    def _disks(self, config: Element, live: Element | None) -> tuple[dict[str, Image], list[str]]:
        """Return the disks in a new snapshot (dict target -> Image), and the targets of the other
        disks.
        """
        self._refuse_split(config, live)
        images: dict[str, Image] = {}
        others = []
        for element in config.findall("devices/disk"):
            disk = parse_disk(element)
            target = disk["target"]
            if not has_written_image(disk):
                others.append(target)
                continue
            what = None
            if kinds.of_disk(disk).source is not kinds.Source.FILE:
                what = (
                    f"is no image file but a {disk['type']}, over which there is no place for"
                    " another image: use the snapshots of its storage"
                )
            elif disk["shareable"]:
                what = (
                    "is shareable, and another guest would go on writing below the new image: use"
                    " the snapshots of its storage"
                )
            elif disk["format"] not in ("qcow2", "raw"):
                what = (
                    f"has the format {disk['format'] or 'that nobody names'}: convert it to qcow2"
                )
            elif (
                live is not None and layers.file_of(layers.disk_of(live, target)) != disk["source"]
            ):
                what = (
                    "is another file in the running guest than in its definition: restart it, or"
                    " correct the definition with virsh edit"
                )
            elif live is not None and layers.job_of(self.domain, target):
                what = "is being copied or merged: wait for the end of that (virsh blockjob)"
            if what is not None:
                raise LibvirtProblem(
                    f"the disk {target} of {self._name} {what}. Nothing was changed"
                )
            images[target] = (disk["source"] or "", disk["format"] or "")
        if not images:
            raise LibvirtProblem(
                f"{self._name} has no disk that it writes to. Nothing was changed."
            )
        return images, others

    def _refuse_split(self, config: Element, live: Element | None) -> None:
        """Refuse a disk that only the running domain or only the definition has. libvirt would
        choose the name of its image, or make no image.
        """
        if live is None:
            return
        now, later = (
            {
                disk["target"]
                for each in root.findall("devices/disk")
                if has_written_image(disk := parse_disk(each))
            }
            for root in (live, config)
        )
        for target in sorted(now ^ later):
            where = "as it runs" if target in now else "from its next start on"
            raise LibvirtProblem(
                f"the disk {target} of {self._name} is one that the guest has only {where}: attach"
                " or detach it in both (virsh attach-disk or detach-disk with --live or --config)."
                " Nothing was changed"
            )

    def _create_snapshot(
        self,
        name: str,
        overlays: Mapping[str, str],
        others: Sequence[str],
        active: bool,
        why: str | None,
    ) -> str | None:
        """Make the snapshot. Return the reason why it is only crash-consistent; None if the file
        systems were frozen.
        """
        checkpoints.let_go(self.domain)
        text = _snapshots.request(name, self._params["description"], overlays, others)
        flags = (
            libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_DISK_ONLY | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_ATOMIC
        )
        if active and why is None:
            try:
                self.domain.snapshotCreateXML(
                    text, flags | libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_QUIESCE
                )
                return None
            except libvirt.libvirtError as exc:
                if not _is_of_agent(exc):
                    raise
                if any(each.name == name for each in _snapshots.read(self.domain)):
                    # libvirt has made the snapshot, but the guest did not confirm the thaw of its
                    # file systems.
                    return (
                        "the agent of the guest did not answer when its file systems were to go on"
                        f" ({binding.text_of(exc)})"
                    )
                why = (
                    "the agent of the guest did not freeze its file systems"
                    f" ({binding.text_of(exc)})"
                )
        self.domain.snapshotCreateXML(text, flags)
        return why

    # -- absent ---------------------------------------------------------------------------------

    def _delete(self, snapshot: Snapshot, snapshots: Sequence[Snapshot]) -> bool:
        if snapshot.kind == _snapshots.INTERNAL:
            if self._real_run:
                self.begun = True
                _ownership.drop_snapshot(self.domain, snapshot.name)
            return True
        if snapshot.kind == _snapshots.WITH_MEMORY:
            raise LibvirtProblem(
                f"the snapshot {snapshot.name} of {self._name} has the memory of the guest in a"
                " file of its own, which drover does not remove: merge its images by hand (virsh"
                " blockcommit), and drop it with virsh snapshot-delete --metadata"
            )
        self._refuse_domain()
        live, config = forms_of(self.domain)
        merges = [self._merge_of(snapshot, target, config, live) for target in snapshot.bases]
        self._refuse_others(snapshot, snapshots, merges)
        merged = [each for each in merges if each["overlay"] is not None]
        overlays = [overlay for each in merged if (overlay := each["overlay"]) is not None]
        self._refuse_left_out(snapshot, overlays, live is not None)
        candidates = [found for each in overlays if (found := _candidate(each)) is not None]
        if not self._real_run:
            self._foresee_removals(merges, overlays)
            return True
        self.begun = True
        for merge in merged:
            self._merge(merge, live is not None)
        self._correct_records(snapshot, merged, snapshots)
        self._remove_images(candidates)
        for merge in merges:
            left = snapshot.overlays[merge["target"]]
            if merge["overlay"] is None and left and look(left).status is not None:
                self.told["kept_files"].append({"path": left, "reason": MERGED_BEFORE})
        _ownership.drop_snapshot(self.domain, snapshot.name, record_alone=True)
        return True

    def _merge_of(
        self, snapshot: Snapshot, target: str, config: Element, live: Element | None
    ) -> Merge:
        """Return the images of a disk to merge."""
        base = snapshot.bases[target]
        source = self._source(target, config, live)
        chain = layers.layers(*source)
        number = layers.position(chain, base[0])
        if number is None:
            raise LibvirtProblem(
                f"the disk {target} of {self._name} is {source[0]}, which is not over {base[0]},"
                f" the image of the snapshot {snapshot.name}: somebody has changed the disk."
                " Nothing was merged. If nobody needs that image, drop the record with virsh"
                " snapshot-delete --metadata"
            )
        merge: Merge = {
            "target": target,
            "base": base,
            "chain": chain,
            "overlay": None,
            "upper": None,
        }
        if number:
            recorded = snapshot.overlays.get(target) or ""
            merge["overlay"] = chain[number - 1]
            merge["upper"] = chain[number - 2] if number > 1 else None
            if layers.position(chain[:number], recorded) is None:
                # An earlier run has merged the overlay. The image above the base belongs to a later
                # snapshot now.
                others = [
                    each for each in _snapshots.read(self.domain) if each.name != snapshot.name
                ]
                if any(_same(each.overlays.get(target), chain[number - 1]) for each in others):
                    merge.update({"overlay": None, "upper": None})
        return merge

    def _source(self, target: str, config: Element, live: Element | None) -> Image:
        """Return the image that a guest writes to."""
        disk = parse_disk(layers.disk_of(config, target))
        running = None if live is None else layers.file_of(layers.disk_of(live, target))
        if disk["source"] is None or (live is not None and running != disk["source"]):
            raise LibvirtProblem(
                f"the disk {target} of {self._name} is {running or 'nothing'} in the running guest"
                f" and {disk['source'] or 'nothing'} in its definition. Nothing was changed:"
                " correct the definition with virsh edit"
            )
        return disk["source"], disk["format"] or "raw"

    def _needs(self, merges: Sequence[Merge]) -> Needs:
        """Return all needs for the images of merges, without the needs of these images
        themselves.
        """
        own = [look(path).real for each in merges for path in each["chain"]]
        needs = Needs(self._conn, self._params["uuid"], self._params["used_elsewhere"], own)
        needs.look_around(sorted({os.path.dirname(look(each["base"][0]).real) for each in merges}))
        return needs

    def _foresee_removals(self, merges: Sequence[Merge], paths: Iterable[str]) -> None:
        """Report the images that would be removed. Before the merge the images are still backing
        files of the domain's own images.
        """
        needs = self._needs(merges)
        for path in paths:
            reason = needs.why(path, look(path))
            if reason is None:
                self.told["removed_files"].append(path)
            else:
                self.told["kept_files"].append({"path": path, "reason": reason})

    def _refuse_others(
        self, snapshot: Snapshot, snapshots: Sequence[Snapshot], merges: Sequence[Merge]
    ) -> None:
        """Refuse to write to an image that is a backing file of any other image or has other
        users.
        """
        needs = self._needs(merges)
        for merge in merges:
            path = merge["base"][0]
            if merge["overlay"] is None:
                continue
            twins = [
                other.name
                for other in snapshots
                if other is not snapshot
                and _same((other.bases.get(merge["target"]) or ("",))[0], path)
            ]
            reason = (
                f"the snapshot {twins[0]} is of the same image"
                if twins
                else needs.why(path, look(path))
            )
            if reason is not None:
                raise LibvirtProblem(
                    f"the snapshot {snapshot.name} of {self._name} is not merged, as that would"
                    f" change {path}: {reason}. Nothing was changed: see to that first, such as by"
                    " removing an image that nobody needs any more"
                )

    def _refuse_left_out(self, snapshot: Snapshot, overlays: Iterable[str], active: bool) -> None:
        """Refuse to merge an image with data that the guest does not see, because the image is
        removed after the merge.
        """
        for path in overlays:
            lost = _lost(path, contents.RUNNING if active else contents.CONVERTED)
            if lost:
                raise LibvirtProblem(
                    f"the snapshot {snapshot.name} of {self._name} is not merged, as its image"
                    f" {path} {lost}, then run this again. Nothing was changed"
                )

    def _merge(self, each: Merge, active: bool) -> None:
        target, base, overlay = each["target"], each["base"], each["overlay"] or ""
        if active:
            layers.merge_live(self.domain, target, overlay, base[0], self._deadline)
        else:
            limit = max(1.0, self._deadline - time.monotonic())
            layers.merge_offline(self._module, each["upper"], overlay, base, limit)
            if each["upper"] is None:
                self._define({target: base})
        live, config = forms_of(self.domain)
        for root in (live, config):
            if root is None:
                continue
            source = layers.file_of(layers.disk_of(root, target)) or ""
            if (
                layers.position(layers.layers(source, None if each["upper"] else base[1]), overlay)
                is not None
            ):
                raise LibvirtProblem(
                    f"{overlay} was merged into {base[0]}, but {self._name} still has it. No file"
                    " was removed: run this again"
                )

    def _define(self, images: Mapping[str, Image]) -> None:
        text = self.domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        if self.domain.isActive():
            raise LibvirtProblem(
                f"{self._name} was started meanwhile. Stop it, and run this again."
            )
        self._conn.defineXML(_snapshots.with_images(text, images))

    def _correct_records(
        self, snapshot: Snapshot, merged: Sequence[Merge], snapshots: Sequence[Snapshot]
    ) -> None:
        """Correct the records of later snapshots, so that they name the image with their
        content.
        """
        for other in snapshots:
            if other.name == snapshot.name:
                continue
            images = {
                target: snapshot.bases[target]
                for target, image in other.bases.items()
                if target in snapshot.bases
                and (
                    any(
                        _same(each["overlay"], image[0])
                        for each in merged
                        if each["target"] == target
                    )
                    or _same(snapshot.overlays.get(target), image[0])
                )
            }
            if images:
                _snapshots.moved(other, self.domain, images, {})

    def _remove_images(self, candidates: Sequence[RemovalCandidate]) -> None:
        """Remove images that the domain no longer has, if they are provably its own."""
        ownership = Ownership(
            self._conn,
            self._params["uuid"],
            self.domain.name(),
            candidates,
            self._params["used_elsewhere"],
        )
        going = ownership.sort_out(locks=self._real_run)
        if self._real_run:
            ownership.remove(patient=True)
            going = ownership.removed
        self.told["removed_files"] += sorted(going)
        self.told["kept_files"] += ownership.kept

    # -- reverted -------------------------------------------------------------------------------

    def _revert(self, snapshot: Snapshot, snapshots: Sequence[Snapshot]) -> bool:
        if snapshot.kind == _snapshots.INTERNAL:
            if self._real_run:
                self.begun = True
                self.domain.revertToSnapshot(self.domain.snapshotLookupByName(snapshot.name, 0), 0)
            return True
        if snapshot.kind == _snapshots.WITH_MEMORY:
            raise LibvirtProblem(
                f"the snapshot {snapshot.name} of {self._name} has the memory of the guest in a"
                f" file of its own: {_WITH_OPERATOR}"
            )
        later = _snapshots.children(snapshots, snapshot.name)
        if later:
            raise LibvirtProblem(
                f"the snapshot {snapshot.name} of {self._name} is not the newest:"
                f" {', '.join(later)} was made after it. Nothing was changed: delete that first"
                f" with {PLAYBOOK} and drover_snapshot_state=absent"
            )
        self._refuse_domain()
        if self.domain.isActive():
            raise LibvirtProblem(
                f"{self._name} is {power.state_of(self.domain)}, and its disks can be changed only"
                " while it is off. Nothing was changed: stop it with drover.compute.instance_stop,"
                " then run this again."
            )
        dummy, config = forms_of(self.domain)
        written, actives = self._written(snapshot, config)
        if written and self._real_run:
            self.begun = True
            overlays = self._fresh_overlays(snapshot, written)
            actives.update(overlays)
        elif written:
            overlays = {}
            self._discard(list(written.values()))
        differing = {
            target: path
            for target, path in actives.items()
            if not _same(snapshot.overlays.get(target), path)
        }
        if differing and self._real_run:
            self.begun = True
            _snapshots.moved(snapshot, self.domain, {}, differing)
        if written and self._real_run:
            self._discard(list(written.values()))
        # An earlier run was cut off between the change of the domain and that of the record.
        before = [snapshot.overlays.get(target) for target in differing if target not in written]
        self.told["kept_files"] += [
            {"path": path, "reason": DISCARDED}
            for path in before
            if path and look(path).status is not None
        ]
        return bool(written or differing)

    def _written(
        self, snapshot: Snapshot, config: Element
    ) -> tuple[dict[str, str], dict[str, str]]:
        """Return the images that the guest has written to since the snapshot, and all images that
        it writes to: dicts target -> path.
        """
        written, actives = {}, {}
        for target, base in snapshot.bases.items():
            source = self._source(target, config, None)
            chain = layers.layers(*source)
            if layers.position(chain, base[0]) != 1:
                raise LibvirtProblem(
                    f"the disk {target} of {self._name} is {source[0]}, which is not directly over"
                    f" {base[0]}, the image of the snapshot {snapshot.name}: the snapshot was"
                    " deleted in part, or somebody has changed the disk. Nothing was changed:"
                    f" delete the snapshot with {PLAYBOOK} and drover_snapshot_state=absent, which"
                    " keeps what the guest has now"
                )
            actives[target] = source[0]
            if _images.holds_data(
                self._module, source[0], _images.image_info(self._module, source[0])
            ):
                written[target] = source[0]
        return written, actives

    def _fresh_overlays(self, snapshot: Snapshot, targets: Mapping[str, str]) -> dict[str, str]:
        """Give the domain new images above the base images of a snapshot. Return dict target ->
        path.
        """
        number, overlays, made = secrets.token_hex(4), {}, []
        try:
            for target in targets:
                base, base_format = snapshot.bases[target]
                path = _snapshots.overlay_path(
                    base, self._params["uuid"], target, snapshot.name, number
                )
                disk: _images.NewDisk = {
                    "path": path,
                    "format": "qcow2",
                    "backing_file": base,
                    "backing_format": base_format,
                    "size_gb": None,
                }
                made.append(_images.make_disk(self._module, disk))
                overlays[target] = path
            self._define({target: (path, "qcow2") for target, path in overlays.items()})
        except (LibvirtProblem, _images.ImageProblem, libvirt.libvirtError):
            self._remove_images(self._without_use(made))
            raise
        return overlays

    def _without_use(self, images: Sequence[RemovalCandidate]) -> list[RemovalCandidate]:
        """Return the images that the domain certainly does not have.

        libvirt may have carried out a call that failed, so read the result from libvirt.
        """
        try:
            live, config = forms_of(self.domain)
        except libvirt.libvirtError:
            return []
        sources = [
            parse_disk(disk)["source"]
            for root in (live, config)
            if root is not None
            for disk in root.findall("devices/disk")
        ]
        return [
            image for image in images if not any(_same(image.path, source) for source in sources)
        ]

    def _discard(self, paths: Sequence[str]) -> None:
        if not self._params["discard"]:
            self.told["kept_files"] += [{"path": path, "reason": DISCARDED} for path in paths]
            return
        kept = {path: lost for path in paths if (lost := _lost(path, contents.CONVERTED))}
        self.told["kept_files"] += [
            {"path": path, "reason": f"it {lost}"} for path, lost in kept.items()
        ]
        self._remove_images(
            [each for path in paths if path not in kept and (each := _candidate(path)) is not None]
        )


def _candidate(path: str) -> RemovalCandidate | None:
    """Return the Candidate of an image that the domain has written to, with its present inode; None
    if the image is gone.
    """
    found = look(path)
    return None if found.status is None else RemovalCandidate(path, by_use=True, inode=found.inode)


def _lost(path: str, way: str) -> str:
    """Return a clause about the data that are lost with an image besides the data that the guest
    sees; empty if nothing is lost.

    :raises LibvirtProblem: the image cannot be read.
    """
    if look(path).status is None:
        return ""
    return "; ".join(contents.left_out(contents.read(path, "qcow2"), way))


def _same(one: str | None, other: str | None) -> bool:
    return (
        bool(one)
        and bool(other)
        and (one == other or layers.real(str(one)) == layers.real(str(other)))
    )


def _is_of_agent(error: Exception) -> bool:
    """Return True if the agent of a guest may have refused: the agent's own errors have the code of
    an internal error of libvirt (``qemuAgentCheckError``).

    QEMU's own errors have this code too. Then the call without the agent fails in the same way.
    """
    codes = {getattr(libvirt, each, None) for each in _AGENT_ERRORS}
    is_internal = (
        binding.code_of(error) == libvirt.VIR_ERR_INTERNAL_ERROR
        and binding.domain_of(error) == libvirt.VIR_FROM_QEMU
    )
    return binding.code_of(error) in codes or is_internal


def _why_not_quiesced(live: Element, state: str) -> str | None:
    """Return the reason why the file systems of a guest cannot be frozen; None if its agent
    answers.
    """
    if state not in ("running", "blocked"):
        return f"the guest is {state}"
    for target in live.findall("devices/channel/target"):
        if target.get("name") == AGENT and target.get("state") == "connected":
            return None
    return "the guest has no agent (qemu-guest-agent) that answers"
