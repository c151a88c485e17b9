# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The probe guest: its start, its messages after a failure, its end. Real ones:
tests/lab/test_hypervisor.py."""

from __future__ import annotations

import threading
import xml.etree.ElementTree as ET

import pytest

from ansible_collections.drover.compute.plugins.module_utils._host import kvm_probe

libvirt = pytest.importorskip("libvirt")

OFFERED = [["x86_64", "qemu", "hvm"], ["x86_64", "kvm", "hvm"]]
#: The message of libvirt 9.0 on a machine with nested virtualisation in software.
BROKEN = (
    "internal error: process exited while connecting to monitor: 2026-11-22T10:00:00.000000Z"
    " qemu-system-x86_64: error: failed to set MSR 0x10a to 0x0\nqemu-system-x86_64:"
    " ../../target/i386/kvm/kvm.c:2892: kvm_buf_set_msrs: Assertion `ret =="
    " cpu->kvm_msr_buf->nmsrs' failed."
)


def _error(code, domain, text):
    error = libvirt.libvirtError(text)
    error.err = (code, domain, text, 2, None, None, None, -1, -1)
    return error


class Guest:
    def __init__(self, host):
        self.host = host

    def destroy(self):
        self.host.running.remove(self)


class Host:
    """A connection to a hypervisor that starts guests, except with these modes of CPU."""

    def __init__(self, refuses=(), hangs=False):
        self.refuses, self.running, self.started, self.hangs = refuses, [], [], hangs

    def createXML(self, text, flags):
        assert flags == libvirt.VIR_DOMAIN_START_PAUSED | libvirt.VIR_DOMAIN_START_AUTODESTROY
        root = ET.fromstring(text)
        if self.hangs:
            threading.Event().wait(5)
        if self.running:
            # The message of libvirt on a host with another language.
            raise _error(
                libvirt.VIR_ERR_OPERATION_FAILED,
                libvirt.VIR_FROM_DOMAIN,
                "Operation schlug fehl: Domain existiert bereits mit UUID 1",
            )
        if root.find("cpu").get("mode") in self.refuses:
            raise _error(libvirt.VIR_ERR_INTERNAL_ERROR, libvirt.VIR_FROM_QEMU, BROKEN)
        self.running.append(Guest(self))
        self.started.append(root)
        return self.running[0]


def test_it_starts_as_place_would_and_leaves_nothing():
    host = Host()
    assert kvm_probe.probe(host, "x86_64", OFFERED) == {
        "offered": True,
        "works": True,
        "message": "",
    }
    (guest,) = host.started
    assert (
        host.running == []
        and guest.get("type") == "kvm"
        and guest.find("os/type").get("machine") == "q35"
    )
    assert guest.find("cpu").attrib == {"mode": "host-model"}
    assert guest.findall("devices/disk") == guest.findall("devices/interface") == []


def test_why_it_does_not_start_is_said():
    host = Host(refuses=["host-model"])
    outcome = kvm_probe.probe(host, "x86_64", OFFERED)
    assert outcome == {
        "offered": True,
        "works": False,
        "message": "error: failed to set MSR 0x10a to 0x0",
    }
    # The guest starts with the CPU that the operator has set for the host.
    outcome = kvm_probe.probe(host, "x86_64", OFFERED, {"mode": "custom", "model": "qemu64"})
    assert outcome["works"] is True and host.started[0].findtext("cpu/model") == "qemu64"


def test_where_kvm_is_not_offered_nothing_is_started():
    outcome = kvm_probe.probe(None, "aarch64", OFFERED)
    assert (outcome["offered"], outcome["works"]) == (
        False,
        None,
    ) and "no KVM for guests of aarch64" in outcome["message"]


def test_it_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(kvm_probe, "TIMEOUT", 0.2)
    found = kvm_probe.probe(Host(hangs=True), "x86_64", OFFERED)
    assert found["works"] is False and "has not started after" in found["message"]


def test_f06_two_probes_at_once_prove_nothing(monkeypatch):
    monkeypatch.setattr(kvm_probe, "TIMEOUT", 1.2)
    host = Host()
    host.running = [Guest(host)]
    found = kvm_probe.probe(host, "x86_64", OFFERED)
    assert found["works"] in (None, False) and (
        "another probe" in found["message"] or "not started" in found["message"]
    )
