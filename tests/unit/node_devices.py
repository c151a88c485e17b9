# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mediated devices, which libvirt's test driver (9.0) does not make: libvirt's operations by
mdevctl, with their refusals.

Words and error codes come from libvirt 9.0 (node_device_driver.c).
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

import libvirt

from ansible_collections.drover.compute.tests.unit.devices import error

NONE = {"nvidia-35": 0}
ACTIVE, INACTIVE = (
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE,
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_INACTIVE,
)


class Mdev:
    """A mediated device, as libvirt's handle of it."""

    def __init__(self, host, uuid, parent, kind, active=True, defined=True, autostart=False):
        self.host, self.uuid, self.parent, self.kind = host, uuid, parent, kind
        self.active, self.defined, self.started_with_host = active, defined, autostart

    def XMLDesc(self, flags=0):
        self._see()
        name = f"mdev_{self.uuid.replace('-', '_')}_{self.parent.removeprefix('pci_')}"
        return (
            f"<device><name>{name}</name><parent>{self.parent}</parent><capability"
            f" type='mdev'><type id='{self.kind}'/><uuid>{self.uuid}</uuid><iommuGroup"
            " number='12'/></capability></device>"
        )

    def isActive(self):
        return int(self.active)

    def setAutostart(self, value):
        self._see()
        self.started_with_host = bool(value)

    def create(self, flags=0):
        self._see()
        if self.host.refuses:
            raise error(
                libvirt.VIR_ERR_INTERNAL_ERROR,
                f"internal error: Unable to start mediated device: {self.host.refuses}",
            )
        self.active = True

    def destroy(self):
        self._see()
        if self.uuid in self.host.busy:
            raise error(
                libvirt.VIR_ERR_INTERNAL_ERROR,
                "internal error: Unable to destroy 'mdev': Device or resource busy",
            )
        self.active = False
        self._forget()

    def undefine(self, flags=0):
        self._see()
        if not self.defined:
            raise error(
                libvirt.VIR_ERR_OPERATION_INVALID,
                "Requested operation is not valid: Node device is not defined",
            )
        self.defined = False
        self._forget()

    def _forget(self):
        if not self.active and not self.defined:
            del self.host.mdevs[self.uuid]

    def _see(self):
        if self.uuid not in self.host.mdevs:
            raise error(
                libvirt.VIR_ERR_NO_NODE_DEVICE,
                "Node device not found: no node device with matching name",
            )


class NodeDevices:
    """The node devices of all connections.

    parents: {libvirt's name: {type: the total number that it makes}}. refuses: mdevctl's message at
    each start. busy: uuids of devices in use.
    """

    def __init__(self, patch, parents, version=9000000):
        self.parents, self.mdevs, self.refuses, self.busy = parents, {}, "", set()
        patch.setattr(libvirt.virConnect, "getLibVersion", lambda connection: version)
        patch.setattr(
            libvirt.virConnect, "listAllDevices", lambda connection, flags=0: self._list(flags)
        )
        patch.setattr(
            libvirt.virConnect,
            "nodeDeviceLookupByName",
            lambda connection, name: self._parent(name),
        )
        patch.setattr(
            libvirt.virConnect,
            "nodeDeviceDefineXML",
            lambda connection, text, flags=0: self._define(text),
        )

    def there(self):
        """Return {uuid: (parent, type, True if it exists, True if it starts with the host)}."""
        return {
            each.uuid: (each.parent, each.kind, each.active, each.started_with_host)
            for each in self.mdevs.values()
        }

    def add(self, uuid, parent, kind, **more):
        self.mdevs[uuid] = Mdev(self, uuid, parent, kind, **more)

    def _list(self, flags):
        state_flags = flags & (ACTIVE | INACTIVE)
        return [
            each
            for each in self.mdevs.values()
            if not state_flags or state_flags & (ACTIVE if each.active else INACTIVE)
        ]

    def _parent(self, name):
        if name not in self.parents:
            raise error(
                libvirt.VIR_ERR_NO_NODE_DEVICE,
                f"Node device not found: no node device with matching name '{name}'",
            )
        return Parent(self, name)

    def left(self, name):
        used = [each.kind for each in self.mdevs.values() if each.parent == name and each.active]
        return {kind: total - used.count(kind) for kind, total in self.parents[name].items()}

    def _define(self, text):
        root = ET.fromstring(text)
        uuid, parent = root.findtext("capability/uuid"), root.findtext("parent")
        self._parent(parent)
        self.add(uuid, parent, root.find("capability/type").get("id"), active=False)
        return self.mdevs[uuid]


class Parent:
    """A device that makes mediated devices."""

    def __init__(self, host, name):
        self.host, self.name = host, name

    def XMLDesc(self, flags=0):
        kinds = "".join(
            "<type"
            f" id='{kind}'><name>GRID</name><deviceAPI>vfio-pci</deviceAPI><availableInstances>{left}</availableInstances></type>"
            for kind, left in self.host.left(self.name).items()
        )
        return (
            f"<device><name>{self.name}</name><capability"
            " type='pci'><domain>0</domain><bus>132</bus><slot>0</slot><function>0</function><capability"
            f" type='mdev_types'>{kinds}</capability></capability></device>"
        )
