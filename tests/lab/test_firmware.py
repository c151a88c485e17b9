# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Guests with UEFI, and with an emulated TPM: placed, drained, evacuated, deleted. State on the
host alone is kept, or named as lost."""

from __future__ import annotations

import pytest
from test_evacuate import extra
from test_fleet import SHARED, said

pytestmark = pytest.mark.long
pytest_plugins = ["test_fleet"]

NVRAM, SWTPM = "/var/lib/libvirt/qemu/nvram", "/var/lib/libvirt/swtpm"
UEFI = {"name": "uefi", "memory_mb": 128, "firmware": "uefi", "disks": [{"size_gb": 1}]}
SECURE = {
    **UEFI,
    "name": "secure",
    "memory_mb": 192,
    "firmware": "uefi-secure-boot",
    "tpm": {"version": "2.0"},
}


def test_placed_drained_evacuated_and_deleted(fleet):
    fleet.place([UEFI, SECURE], *extra())
    # Both on one host.
    first, second, third = fleet.hosts
    for host in (second, third):
        fleet.playbook("drain", *extra(drover_host=host))
        fleet.playbook("undrain", *extra(drover_host=host))
        if {there for there, _state in fleet.settled().values()} == {first}:
            break
    fleet.playbook("discover", *extra())
    done = fleet.playbook("drain", *extra(drover_host=first))
    where = fleet.settled()
    assert {state for _host, state in where.values()} == {"running"} and first not in {
        host for host, _state in where.values()
    }, said(done)
    uuids = dict(fleet.query("SELECT name, uuid FROM instances"))
    host = where["secure"][0]
    # In a live move, the variables and the state of the TPM move too.
    assert (
        fleet.lab.host(host).file(f"{SWTPM}/{uuids['secure']}").exists
        and fleet.lab.host(host).file(f"{NVRAM}/secure_VARS.fd").exists
    )
    assert not fleet.lab.host(first).file(f"{SWTPM}/{uuids['secure']}").exists

    # The other one comes to the host that dies.
    if where["uefi"][0] != host:
        fleet.playbook(
            "instance_migrate", "-e", "drover_instance=uefi", "-e", f"drover_destination={host}"
        )
    fleet.playbook("undrain", *extra(drover_host=first))
    fleet.playbook("discover", *extra())
    fleet.lab.command("kill", host)
    fleet.playbook("discover", *extra(), "--limit", f"{host},localhost", check=False)
    word = {"drover_host": host, "drover_host_is_off": f"{host} is powered off"}
    done = fleet.playbook("evacuate", *extra(**word), check=False)
    living = fleet.where([each for each in fleet.hosts if each != host])
    assert set(living) == {"uefi"} and living["uefi"][1] == "running", said(done)
    assert done.returncode != 0 and "secure" in said(done) and "TPM" in said(done), said(done)
    assert fleet.lab.host(living["uefi"][0]).file(f"{NVRAM}/uefi_VARS.fd").exists

    # The host is back: the guest with a TPM is still there, with its state, and starts.
    fleet.lab.command("start", host)
    fleet.playbook("discover", *extra())
    fleet.playbook("undrain", *extra(drover_host=host))
    if fleet.where()["secure"][1] != "running":
        fleet.playbook("instance_start", "-e", "drover_instance=secure")
    assert fleet.settled()["secure"] == (host, "running")

    for name, there in (("uefi", living["uefi"][0]), ("secure", host)):
        fleet.delete(name)
        assert not fleet.lab.host(there).file(f"{NVRAM}/{name}_VARS.fd").exists
    assert not fleet.lab.host(host).file(f"{SWTPM}/{uuids['secure']}").exists
    assert (
        fleet.where() == {}
        and [
            path for path in fleet.files(SHARED) if any(uuid[:8] in path for uuid in uuids.values())
        ]
        == []
    )
    # The dead host's files of the guest that left stay there, and belong to no instance.
    assert fleet.query("SELECT COUNT(*) FROM allocations") == [(0,)]
