# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of hosts with the real libvirt. The lab has no device for a guest, so the tests check the
end of a build without one."""

from __future__ import annotations

import json
import pathlib

import pytest
from test_fleet import LOCAL

pytest_plugins = ["test_fleet"]

TEMPLATE = pathlib.Path(__file__).parents[2] / "roles" / "place" / "templates" / "domain.xml.j2"
GONE = """
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <source><address domain='0x0000' bus='0xfe' slot='0x1f' function='0x7'/></source>
    </hostdev>
    <memballoon"""


@pytest.mark.long
def test_a_device_that_is_not_there_leaves_nothing_on_any_host(fleet, tmp_path):
    """libvirt refuses the start on one host after the other; the files of each build are removed,
    and its room is released."""
    template = tmp_path / "domain.xml.j2"
    template.write_text(
        TEMPLATE.read_text(encoding="utf-8").replace("<memballoon", GONE.strip(), 1),
        encoding="utf-8",
    )
    files = {host: fleet.files(LOCAL, host) for host in fleet.hosts}
    definition = {"name": "gpu", "memory_mb": 64, "disks": [{"size_gb": 1}]}
    output = fleet.refused(
        "place",
        "-e",
        json.dumps(
            {"drover_instance_definitions": [definition], "drover_domain_template": str(template)}
        ),
    )
    # The lab has no IOMMU, and libvirt's message names that before the device.
    refusal = "host doesn't support passthrough of host PCI devices"
    assert (refusal in output or "0000:fe:1f.7" in output) and "no alternate is left" in output, (
        output
    )
    assert all(f"Instance gpu on {host}" in output for host in fleet.hosts), output
    assert fleet.where() == {} and {host: fleet.files(LOCAL, host) for host in fleet.hosts} == files
    assert fleet.booked() == {}
    # Without the device the instance is built.
    fleet.place([definition])
    assert list(fleet.where()) == ["gpu"]
