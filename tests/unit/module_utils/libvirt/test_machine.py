# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is a machine and not an address."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine as _machine
from ansible_collections.drover.compute.plugins.module_utils._libvirt.machine import (
    OTHER,
    SAME,
    UNKNOWN,
)

A, B, C = (f"{number}e2f0000-0000-4000-8000-00000000000{number}" for number in "abc")


def expected(host=(), system=(), ids=()):
    return {
        "host": "kvm1",
        "host_uuids": list(host),
        "system_uuids": list(system),
        "machine_ids": list(ids),
    }


def machine(*uuids, machine_id=None, read=True):
    return {"uuids": list(uuids), "machine_id": machine_id, "read": read, "verdict": None}


@pytest.mark.parametrize(
    "wanted, found, asked, verdict",
    [
        # The uuid decides, for any machine id: an installed template gives many machines one id, a
        # new system gives a machine another.
        (expected([A], [A], ["m"]), machine(A, machine_id="m"), None, SAME),
        (expected([A], [A], ["m"]), machine(A, machine_id="new"), None, SAME),
        (expected([A], [A], ["m"]), machine(B, machine_id="m"), None, OTHER),
        (expected([A], [A], ["m"]), machine(B, machine_id="m"), B, OTHER),
        # The settings were changed, and libvirt was not started again.
        (expected([A], [A], ["m"]), machine(B, machine_id="m"), A, SAME),
        # A store of an older version.
        (expected([A]), machine(A), None, SAME),
        (expected([A]), machine(B), None, OTHER),
        # A host that is reached by a URI: the module runs on the controller.
        (expected([A], [B], ["m"]), machine(B, machine_id="m"), None, SAME),
        (expected([A]), machine(B), A, SAME),
        # Without a configured uuid, libvirt makes a new one at each start.
        (expected([A], [], ["m"]), machine(machine_id="m"), C, SAME),
        (expected([A], [], ["m"]), machine(machine_id="x"), C, OTHER),
        (expected([A], [], []), machine(machine_id="x"), C, UNKNOWN),
        # No right to read the firmware, but libvirt reports the uuid.
        (expected([A], [], []), machine(read=False), C, OTHER),
        (expected([A], [], []), machine(read=False), A, SAME),
        (expected([A], [A], ["m"]), machine(machine_id="m", read=False), None, SAME),
        (expected(), machine(B, machine_id="m"), None, UNKNOWN),
        (expected([], [], ["m"]), machine(B, machine_id="x"), None, OTHER),
        # A host does not lose the uuid of its system.
        (expected([A], [A], []), machine(machine_id="m"), C, OTHER),
        (expected([A], [A], ["m"]), machine(machine_id="m"), C, OTHER),
        (expected([A], [A], []), machine(read=False), None, UNKNOWN),
    ],
)
def test_who_answers(wanted, found, asked, verdict):
    assert _machine.judge(wanted, found, lambda: asked) == verdict


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return a function that writes the files of a machine: name -> text."""
    paths = {"libvirtd": tmp_path / "libvirtd.conf", "virtqemud": tmp_path / "virtqemud.conf"}
    firmware, machine_id = tmp_path / "product_uuid", tmp_path / "machine-id"
    monkeypatch.setattr(_machine, "SETTINGS", tuple(map(str, paths.values())))
    monkeypatch.setattr(_machine, "FIRMWARE", str(firmware))
    monkeypatch.setattr(_machine, "MACHINE_ID", (str(machine_id),))
    return lambda name, text: {**paths, "firmware": firmware, "machine_id": machine_id}[
        name
    ].write_text(text)


def test_libvirt_prefers_its_settings_to_the_firmware(files):
    files("firmware", B.upper() + "\n")
    files("machine_id", "0123456789abcdef0123456789abcdef\n")
    assert _machine.here() == {
        "uuids": [B],
        "machine_id": "0123456789abcdef0123456789abcdef",
        "firmware": B,
        "read": True,
        "verdict": None,
    }
    files("libvirtd", f'# host_uuid = "{C}"\nlisten_tls = 0\nhost_uuid = "{A.upper()}"\n')
    assert _machine.here()["uuids"] == [A]
    files("virtqemud", f"host_uuid = '{C}'\n")
    assert _machine.here()["uuids"] == [A, C]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Not Settable",
        "00000000-0000-0000-0000-000000000000",
        "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
    ],
)
def test_what_libvirt_does_not_take_for_a_uuid_is_none(files, text):
    files("firmware", text)
    files("libvirtd", 'host_uuid = "nonsense"\n')
    assert _machine.here() == {
        "uuids": [],
        "machine_id": None,
        "firmware": None,
        "read": True,
        "verdict": None,
    }


def test_the_refusal_names_both_machines_and_what_to_do():
    sentence = _machine.refusal(expected([A], [A], ["m"]), machine(B, machine_id="x"), "vm7")
    for part in (
        "kvm1",
        "vm7",
        A,
        B,
        "machine id m",
        "machine id x",
        "ansible_host",
        "Nothing was done",
        "host_replace -e drover_host=kvm1",
    ):
        assert part in sentence


@pytest.mark.parametrize("given", [{}, {"host": 1}, {"host": "kvm1", "host_uuids": "x"}])
def test_an_expectation_that_is_none_is_refused(given):
    with pytest.raises(ValueError):
        _machine.read_expected(given)
