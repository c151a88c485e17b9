# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pins, NUMA cells and huge pages of domains, as Nova and people write them."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import parse_domain
from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse

# The elements that Nova 34 writes for a guest of two cells with pinned CPUs, 2 MiB pages and an
# isolated emulator.
NOVA = """<domain type='kvm'><name>n</name><memory unit='KiB'>2097152</memory><vcpu>4</vcpu>
  <memoryBacking><hugepages><page size='2048' unit='KiB' nodeset='0'/><page size='2048' unit='KiB' nodeset='1'/></hugepages></memoryBacking>
  <numatune><memory mode='strict' nodeset='0-1'/><memnode cellid='0' mode='strict' nodeset='0'/><memnode cellid='1' mode='strict' nodeset='1'/>
  </numatune>
  <cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='9'/><vcpupin vcpu='2' cpuset='13'/><vcpupin vcpu='3' cpuset='5'/>
    <emulatorpin cpuset='2'/><iothreadpin iothread='1' cpuset='2'/></cputune>
  <cpu mode='host-model'><numa><cell id='0' cpus='0-1' memory='1048576' memAccess='shared'/>
    <cell id='1' cpus='2-3' memory='1' unit='GiB'/></numa></cpu>
</domain>"""


def test_a_guest_of_nova():
    assert parse_domain(NOVA)["numa"] == {
        "cpuset": None,
        "vcpu_pins": {"0": [1], "1": [9], "2": [13], "3": [5]},
        "emulator_pins": [2],
        "iothread_pins": {"1": [2]},
        "memory": {"mode": "strict", "nodes": [0, 1]},
        "cells": [
            {"id": 0, "cpus": [0, 1], "memory_mb": 1024, "mode": "strict", "nodes": [0]},
            {"id": 1, "cpus": [2, 3], "memory_mb": 1024, "mode": "strict", "nodes": [1]},
        ],
        "pages": [{"size_kb": 2048, "cells": [0]}, {"size_kb": 2048, "cells": [1]}],
        "locked": False,
    }


def test_a_guest_without_any_of_it():
    assert (
        parse_numa(parse("<domain><vcpu>2</vcpu><cpu mode='host-model'/><memoryBacking/></domain>"))
        is None
    )


EMPTY = {
    "cpuset": None,
    "vcpu_pins": {},
    "emulator_pins": None,
    "iothread_pins": {},
    "memory": None,
    "cells": [],
    "pages": [],
    "locked": False,
}


@pytest.mark.parametrize(
    "inner, values",
    [
        ("<vcpu cpuset='0-3,^2'>2</vcpu>", {"cpuset": [0, 1, 3]}),
        (
            "<vcpu placement='auto'>2</vcpu><numatune><memory mode='preferred' placement='auto'/></numatune>",
            {"memory": {"mode": "preferred", "nodes": []}},
        ),
        ("<cputune><vcpupin vcpu='0' cpuset='4-5'/></cputune>", {"vcpu_pins": {"0": [4, 5]}}),
        # The default page size of the host.
        (
            "<memoryBacking><hugepages/></memoryBacking>",
            {"pages": [{"size_kb": None, "cells": []}]},
        ),
        (
            "<memoryBacking><hugepages><page size='1' unit='G'/></hugepages><locked/></memoryBacking>",
            {"pages": [{"size_kb": 1048576, "cells": []}], "locked": True},
        ),
        # Cells without a number count from 0.
        (
            "<cpu><numa><cell cpus='0' memory='512' unit='MiB'/><cell cpus='1' memory='512' unit='MiB'/></numa></cpu>",
            {
                "cells": [
                    {"id": 0, "cpus": [0], "memory_mb": 512, "mode": None, "nodes": []},
                    {"id": 1, "cpus": [1], "memory_mb": 512, "mode": None, "nodes": []},
                ]
            },
        ),
    ],
)
def test_as_people_write_it(inner, values):
    assert parse_numa(parse(f"<domain>{inner}</domain>")) == {**EMPTY, **values}


NICS = """<domain><devices>
  <hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>
  <interface type='hostdev' managed='yes'><mac address='52:54:00:00:00:09'/>
    <source><address type='pci' domain='0x0000' bus='0x3b' slot='0x02' function='0x1'/></source>
    <address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></interface>
  <interface type='vdpa'><mac address='52:54:00:00:00:0a'/><source dev='/dev/vhost-vdpa-0'/></interface>
  <interface type='network'><source network='default'/><address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></interface>
  </devices></domain>"""


def test_interfaces_that_are_devices_of_the_host():
    assert parse_domain(NICS)["hostdevs"] == [
        {"type": "mdev", "address": "c2177883-f1bb-47f0-914d-32a22e3a8804"},
        {"type": "pci", "address": "0000:3b:02.1"},
        {"type": "vdpa", "address": "/dev/vhost-vdpa-0"},
    ]
    assert len(reading.in_the_way(reading.read(NICS), live=True)) == 3
