# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of instances, from leases in the form of libvirt 9.0. Its test driver has none."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._host.storage import read_addresses


class Network:
    def __init__(self, *leases):
        self.leases = leases

    def DHCPLeases(self):
        if self.leases == (None,):
            raise libvirt.libvirtError(
                "Requested operation is not valid: network 'x' is not active"
            )
        return list(self.leases)


class Connection:
    def __init__(self, *networks):
        self.networks = networks

    def listAllNetworks(self, flags):
        return list(self.networks)


def lease(mac, address):
    return {
        "iface": "virbr0",
        "expirytime": 1795290000,
        "type": 1 if ":" in address else 0,
        "mac": mac,
        "iaid": None,
        "ipaddr": address,
        "prefix": 24,
        "hostname": "web",
        "clientid": None,
    }


def test_the_addresses_of_each_mac_the_old_protocol_first():
    first = Network(
        lease("52:54:00:00:00:01", "2001:db8::7"), lease("52:54:00:00:00:01", "192.0.2.7")
    )
    second = Network(lease("52:54:00:00:00:02", "192.0.2.9"))
    assert read_addresses(Connection(first, Network(None), second)) == {
        "52:54:00:00:00:01": ["192.0.2.7", "2001:db8::7"],
        "52:54:00:00:00:02": ["192.0.2.9"],
    }


def test_a_hypervisor_that_tells_of_no_leases():
    assert read_addresses(libvirt.open("test:///default")) == {}
