# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network devices of a destination, as far as its libvirt knows them."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._migration import checks

#: A node device, as libvirt lists it. A bridge of the host is not among them.
CABLE = (
    "<device><name>net_eth0</name><capability type='net'><interface>eth0</interface>"
    "</capability></device>"
)


class Named:
    def __init__(self, name):
        self._name = name

    def name(self):
        return self._name


class NodeDevice:
    def XMLDesc(self, flags):  # noqa: N802  pylint: disable=invalid-name
        return CABLE


class Destination:
    """A libvirt with an interface driver that sees some of the host's interfaces."""

    networkLookupByName = None  # noqa: N815  pylint: disable=invalid-name

    def __init__(self, *interfaces):
        self._interfaces = interfaces

    def listAllInterfaces(self, flags):  # noqa: N802  pylint: disable=invalid-name
        return [Named(name) for name in self._interfaces]

    def listAllDevices(self, flags):  # noqa: N802  pylint: disable=invalid-name
        return [NodeDevice()]


def test_a_bridge_that_is_not_in_the_list_is_missing():
    reasons = checks.lacking_plugs(Destination("lo", "eth0", "br0"), [], ["br0", "br1"], "kvm2")
    assert reasons == {
        "bridge br1": "the bridge or device br1 does not exist on kvm2: make it there"
    }


def test_an_empty_list_of_interfaces_says_nothing_of_a_bridge():
    """libvirt 7 without a database of udev lists no interface, and no bridge among its devices."""
    assert checks.lacking_plugs(Destination(), [], ["br0"], "kvm2") == {}
