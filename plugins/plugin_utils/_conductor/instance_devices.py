# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The devices of an instance: attach one, detach one, or make a disk larger, on its host.

The order, the files and the room of a new or larger disk are in the store before the hypervisor
gets the order. The order is closed when its host shows the result. Until then the instance keeps
the files and the room, and the next run continues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._common import certainty
from .._common.errors import DroverError
from .._planner.movability import LIVE_STATES
from .._records.domains import ReportedDomain
from .._records.instances import Disk, NamedInstance
from .._store.database import bulk
from .._store.engine import Connection
from .._store.hosts import continuity
from .._store.instances import orders
from .._tracker import record_device
from . import used_files
from .instance_order import InstanceOrder, named_domain, refuse_moved, sentence_of
from .ports import Hand, Ports

#: The kinds of devices, as the module _domain_device names them; GROWTH makes a disk larger.
DISK, INTERFACE, CDROM, GROWTH = "disk", "interface", "cdrom", "growth"
#: The words for each in sentences.
WORDS = {DISK: "a disk", INTERFACE: "a network interface", CDROM: "a medium", GROWTH: "a disk"}
#: The beginning of a refusal, by the task state.
NOT_DONE = {
    orders.ATTACHING: "Nothing is attached",
    orders.DETACHING: "Nothing is detached",
    orders.EXTENDING: "No disk is made larger",
}
#: Seconds that a look waits beyond the time limit of a call, and that a run holds its lease beyond
#: it.
GRACE, SPARE = 30, 300


class DeviceRequest(NamedTuple):
    """The request to attach a device to an instance, or to detach it.

    - wanted: its name, its uuid or both; or a text that is a name or a uuid.
    - kind: DISK, INTERFACE, CDROM or GROWTH.
    - given: its options, see the module _domain_device.
    - present: True to attach it, False to detach it.
    - timeout: seconds that the guest may take to release it.
    """

    wanted: Mapping[str, str] | str
    kind: str
    given: Mapping[str, Any]
    present: bool
    timeout: int

    @property
    def task_state(self) -> str:
        if self.kind == GROWTH:
            return orders.EXTENDING
        return orders.ATTACHING if self.present else orders.DETACHING


class InstanceDevices(InstanceOrder):
    """A run for one device of one instance."""

    def __init__(self, ports: Ports, request: DeviceRequest, check_mode: bool = False) -> None:
        super().__init__(ports, check_mode)
        self._request = request

    def run(self) -> dict[str, object]:
        """Attach, detach or enlarge the device.

        :returns: a dict: changed, host, uuid, name, device (None without a device), created_disks
            for a disk, and diff if there is one.
        :raises DroverError: it is refused, it failed, or its result is not certain.
        """
        target = self._find_instance()
        if self._request.task_state == orders.DETACHING and self._request.kind != CDROM:
            self._own.refuse_stop([target], NOT_DONE[orders.DETACHING])
        host = self._host(target)
        purpose = f"{self._request.task_state} {WORDS[self._request.kind]}"
        with self._lease(host, purpose, self._request.timeout + SPARE):
            instance = self._find_instance()
            refuse_moved(instance, host, "Nothing was done")
            result = self._change_device(instance, host)
        of_instance: dict[str, object] = {
            "host": host,
            "uuid": instance["uuid"],
            "name": instance["name"],
        }
        shown = (
            "changed",
            "device",
            "diff",
            *(("created_disks",) if self._request.kind == DISK else ()),
        )
        return {**of_instance, **{key: value for key, value in result.items() if key in shown}}

    def _find_instance(self) -> NamedInstance:
        task_state = self._request.task_state
        return self._instance_with_domain(self._request.wanted, NOT_DONE[task_state], task_state)

    @staticmethod
    def _host(instance: NamedInstance) -> str:
        # refuse() has refused an instance without a host.
        return instance["host"] or ""

    def _change_device(self, instance: NamedInstance, host: str) -> dict[str, object]:
        hand, uuid = self._hosts.hand(host), instance["uuid"]
        # Any other kind of order is refused below.
        earlier = instance["order_uuid"] if instance["task_state"] in orders.DEVICES else None
        if earlier is not None and not self._check_mode:
            # First withdraw the order of the earlier run, so that nothing of it can begin any more.
            self._withdraw_order(hand, instance, earlier, "an earlier run was cut off.")
        options = self._module_arguments(instance)
        if self._request.given.get("path"):
            # The store has the name of the instance that uses the file. A hypervisor sees only that
            # it is in use.
            named: Disk = {
                "path": self._request.given["path"],
                "readonly": bool(self._request.given.get("readonly")),
            }
            with self._store.read() as connection:
                self._refuse_used(connection, instance, named)
        foreseen = hand.foretell("_domain_device", options)
        self._refuse_unread(instance, foreseen)
        if foreseen.get("failed"):
            raise DroverError(sentence_of(instance, str(foreseen.get("msg"))), host=host)
        if not foreseen["changed"] and earlier is None:
            if self._request.kind == GROWTH and not self._check_mode:
                # A person has made it larger, or the store came back from a backup. Record the size
                # that the host shows.
                self._close(instance, host, None, foreseen["domain"])
            return foreseen
        self._refuse_used_elsewhere(instance, foreseen)
        order = bulk.new_uuid()
        with self._store.write() as connection:
            orders.begin(connection, uuid, self._request.task_state, order, instead_of=earlier)
            if self._request.present and foreseen["changed"]:
                # From now on no other run gets the file.
                self._refuse_used(connection, instance, foreseen["device"])
                record_device.claim(
                    connection,
                    uuid,
                    host,
                    foreseen["domain"],
                    self._clock.time(),
                    room=self._request.kind in (DISK, GROWTH),
                )
        if self._check_mode:
            return foreseen
        answer = hand.act(
            "_domain_device",
            {**options, "order": order, "looked_up": _paths_of_device(foreseen["device"])},
        )
        if answer.outcome == certainty.DONE:
            self._close(instance, host, order, answer.result["domain"])
            return answer.result
        self._close(
            instance, host, order, self._withdraw_order(hand, instance, order, answer.message)
        )
        raise DroverError(sentence_of(instance, answer.message), host=host)

    def _module_arguments(self, instance: NamedInstance) -> dict[str, object]:
        return {
            **named_domain(instance),
            "state": "present" if self._request.present else "absent",
            self._request.kind: {
                key: value for key, value in self._request.given.items() if value is not None
            },
            "timeout": self._request.timeout,
        }

    def _refuse_unread(self, instance: NamedInstance, foreseen: Mapping[str, Any]) -> None:
        """Refuse a device that a guest on a host which the store has never read may use.

        That is a disk that a second guest would write to, or a disk that would grow under a running
        guest. A new disk has no other user. A disk may grow if its guest runs on its own host.
        """
        kind, runs_here = (
            self._request.kind,
            (foreseen.get("domain") or {}).get("state") in LIVE_STATES,
        )
        is_taken = (
            kind == DISK
            and self._request.present
            and foreseen.get("changed")
            and not foreseen["created_disks"]
        )
        if is_taken and not foreseen["device"]["readonly"]:
            unknown = continuity.FILES
        elif kind == GROWTH and not runs_here:
            unknown = continuity.RUNNING
        else:
            return
        with self._store.read() as connection:
            refused = f"Instance {instance['name']}: {NOT_DONE[self._request.task_state]}"
            continuity.refuse_unread(connection, refused, self._hosts.names(), unknown)

    def _refuse_used(
        self, connection: Connection, instance: NamedInstance, device: Disk | None
    ) -> None:
        """Refuse a file that an instance of any host uses."""
        kind = self._request.kind
        if not self._request.present or kind in (INTERFACE, GROWTH) or device is None:
            return
        owner = (instance["uuid"], instance["name"], instance["host"] or "")
        names, behind = (
            _paths_of_device(device),
            [layer["path"] for layer in device.get("chain") or ()],
        )
        if kind == CDROM or device["readonly"]:
            used_files.refuse_read(connection, *owner, [*names, *behind])
            return
        used_files.refuse_taken(connection, *owner, names)
        used_files.refuse_written(
            connection, *owner, [path for path in behind if path not in names]
        )

    def _refuse_used_elsewhere(self, instance: NamedInstance, foreseen: Mapping[str, Any]) -> None:
        """Refuse an existing file that a domain of another host uses.

        That host may have another name for it, or may use it only since the last discovery.
        """
        kind, device = self._request.kind, foreseen["device"]
        if (
            not (self._request.present and foreseen["changed"] and device)
            or kind in (INTERFACE, GROWTH)
            or foreseen.get("created_disks")
        ):
            return
        reads = kind == CDROM or bool(device["readonly"])
        self._removing.refuse_taken(
            instance["uuid"],
            instance["name"],
            instance["host"] or "",
            _paths_of_device(device),
            written=reads,
        )

    def _withdraw_order(
        self, hand: Hand, instance: NamedInstance, order: str, message: str
    ) -> ReportedDomain | None:
        text = sentence_of(instance, message)
        return self._withdraw(
            hand,
            instance,
            order,
            self._request.timeout + GRACE,
            lambda dummy: (
                f"{text} {instance['host']} does not show what became of it, so it may be done."
                " When that host answers, run this again, which finds out and goes on."
            ),
        )


def _paths_of_device(device: Disk | None) -> list[str]:
    """Return the path and the real path of the file of a device."""
    device = device or {}
    return sorted({path for path in (device.get("path"), device.get("real_path")) if path})
