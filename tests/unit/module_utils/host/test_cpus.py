# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU that a guest needs, and the hypervisors that can run it."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import libvirt
import pytest

from ansible_collections.drover.compute.plugins.module_utils._host import cpus

HOST_MODEL = """<domainCapabilities><cpu><mode name='host-model' supported='yes'><model fallback='forbid'>Broadwell</model>
<feature policy='require' name='vmx'/></mode></cpu></domainCapabilities>"""


class Conn:
    """A hypervisor with recorded answers."""

    def __init__(self, answer=libvirt.VIR_CPU_COMPARE_SUPERSET, error=None):
        self.answer, self.error = answer, error

    def getDomainCapabilities(self, *_words):  # noqa: N802
        return HOST_MODEL

    def compareHypervisorCPU(self, *_words):  # noqa: N802
        if self.error is not None:
            problem = libvirt.libvirtError("no")
            problem.err = (self.error, 0, "no", 0, "", "", "", 0, 0)
            raise problem
        return self.answer


def domain(cpu, kind="kvm"):
    return ET.fromstring(
        f"<domain type='{kind}'><os><type arch='x86_64' machine='q35'>hvm</type></os>{cpu}</domain>"
    )


@pytest.mark.parametrize(
    ("cpu", "model"),
    [
        ("<cpu mode='host-model'/>", "Broadwell"),
        ("<cpu mode='host-passthrough'/>", "Broadwell"),
        ("<cpu mode='custom'><model>Haswell</model></cpu>", "Haswell"),
    ],
)
def test_the_cpu_of_a_guest(cpu, model):
    found = cpus.wanted(Conn(), domain(cpu))
    assert (found["arch"], found["type"]) == ("x86_64", "kvm") and ET.fromstring(
        found["cpu"]
    ).findtext("model") == model


def test_guests_that_run_on_any_cpu():
    assert cpus.wanted(Conn(), domain("")) is None
    assert cpus.wanted(Conn(), domain("<cpu mode='host-model'/>", kind="qemu")) is None


class Running(Conn):
    """A hypervisor whose CPU lacks some features. Its QEMU gives a guest some of them all the
    same."""

    def __init__(self, *lacks):
        super().__init__()
        self.lacks = lacks

    def compareHypervisorCPU(self, *words):  # noqa: N802
        features = ET.fromstring(words[4]).findall("feature[@policy='require']")
        if {each.get("name") for each in features} & set(self.lacks):
            return libvirt.VIR_CPU_COMPARE_INCOMPATIBLE
        return libvirt.VIR_CPU_COMPARE_SUPERSET


#: The CPU of a running guest, in the form of libvirt 12.8 on an AMD EPYC-Genoa: QEMU added topoext.
EXPANDED = (
    "<cpu mode='custom' match='exact' check='{check}'><model>Broadwell</model>"
    "<feature policy='require' name='vmx'/><feature policy='require' name='topoext'/></cpu>"
)


def test_a_feature_that_qemu_adds_by_itself_is_not_needed_of_another_host():
    cpu = cpus.wanted(Running("topoext"), domain(EXPANDED.format(check="full")))
    assert cpus.runs(Running("topoext"), cpu) and not cpus.runs(Running("topoext", "vmx"), cpu)
    # A guest that is off needs all features of its definition.
    cpu = cpus.wanted(Running("topoext"), domain(EXPANDED.format(check="partial")))
    assert not cpus.runs(Running("topoext"), cpu)


def test_a_guest_runs_although_its_own_host_says_no():
    """Then a comparison says nothing of the other host."""
    cpu = cpus.wanted(Running("topoext", "vmx"), domain(EXPANDED.format(check="full")))
    assert cpu is None


def test_only_a_clear_no_counts():
    cpu = {"arch": "x86_64", "type": "kvm", "cpu": "<cpu/>"}
    assert not cpus.runs(Conn(libvirt.VIR_CPU_COMPARE_INCOMPATIBLE), cpu)
    assert cpus.runs(Conn(libvirt.VIR_CPU_COMPARE_IDENTICAL), cpu) and cpus.runs(Conn(), cpu)
    assert cpus.runs(Conn(error=libvirt.VIR_ERR_NO_SUPPORT), cpu)
    with pytest.raises(libvirt.libvirtError):
        cpus.runs(Conn(error=libvirt.VIR_ERR_INTERNAL_ERROR), cpu)
