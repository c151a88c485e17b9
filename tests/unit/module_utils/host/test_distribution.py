# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Domains of other distributions: their QEMU and their labels, in the forms that libvirt writes on
RHEL 9, Debian 12 and Ubuntu 24.04."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._host import distribution, offered

DEBIAN, RHEL = "/usr/bin/qemu-system-x86_64", "/usr/libexec/qemu-kvm"
SVIRT = (
    "<seclabel type='dynamic' model='selinux'"
    " relabel='yes'><label>system_u:system_r:svirt_t:s0:c429,c958</label>"
    "<imagelabel>system_u:object_r:svirt_image_t:s0:c429,c958</imagelabel></seclabel>"
)
UBUNTU = (
    "<seclabel type='dynamic' model='apparmor'"
    " relabel='yes'><label>libvirt-2d9bb2f4-3b4f-4a5b-8b1c-222222222222</label>"
    "<imagelabel>libvirt-2d9bb2f4-3b4f-4a5b-8b1c-222222222222</imagelabel></seclabel>"
)
DAC = (
    "<seclabel type='dynamic' model='dac'"
    " relabel='yes'><label>+107:+107</label><imagelabel>+107:+107</imagelabel></seclabel>"
)
STATIC = (
    "<seclabel type='static' model='selinux'"
    " relabel='yes'><label>system_u:system_r:svirt_t:s0:c392,c662</label></seclabel>"
)
BASE = (
    "<seclabel type='dynamic'"
    " model='selinux'><baselabel>system_u:system_r:my_svirt_t:s0</baselabel></seclabel>"
)
PLAIN = "<seclabel type='dynamic' model='selinux' relabel='yes'/>"


class Host:
    """A hypervisor of a distribution: the paths of its QEMU, the usual one first; its machine
    types; its security driver.
    """

    def __init__(self, *emulators, machines=("pc-q35-7.2", "q35"), driver="none"):
        self.emulators, self.machines, self.driver = emulators, machines, driver

    def getLibVersion(self):
        return 9000000

    def getCapabilities(self):
        models = "".join(
            f"<secmodel><model>{each}</model></secmodel>" for each in (self.driver, "dac")
        )
        return f"<capabilities><host>{models}</host></capabilities>"

    def getDomainCapabilities(self, emulator, arch, machine, kind, _flags):
        if emulator is not None and emulator not in self.emulators:
            raise self._error(
                libvirt.VIR_ERR_SYSTEM_ERROR,
                f"Cannot check QEMU binary {emulator}: No such file or directory",
            )
        if machine not in self.machines:
            text = f"the machine '{machine}' is not supported by emulator '{self.emulators[0]}'"
            raise self._error(libvirt.VIR_ERR_INVALID_ARG, text)
        return f"<domainCapabilities><path>{emulator or self.emulators[0]}</path><arch>{arch}</arch></domainCapabilities>"

    @staticmethod
    def _error(code, text):
        problem = libvirt.libvirtError(text)
        problem.err = (code, 0, text, 2, "", "", "", 0, 0)
        return problem


def domain(emulator=DEBIAN, *labels, machine="pc-q35-7.2"):
    path = f"<emulator>{emulator}</emulator>" if emulator else ""
    return (
        "<domain type='kvm'><name>web</name><metadata><drover:instance"
        " xmlns:drover='https://drover.compute/instance/1'/></metadata><os><type arch='x86_64'"
        f" machine='{machine}'>hvm</type></os><devices>{path}</devices>{''.join(labels)}</domain>"
    )


def emulator_of(text):
    return ET.fromstring(text).findtext("devices/emulator")


def test_a_domain_gets_the_qemu_of_its_new_host():
    debian, rhel = Host(DEBIAN, "/usr/bin/kvm"), Host(RHEL)
    assert emulator_of(distribution.for_host(rhel, domain())) == RHEL
    assert emulator_of(distribution.for_host(debian, domain(RHEL))) == DEBIAN
    assert "xmlns:drover=" in distribution.for_host(rhel, domain())
    for text in (domain(), domain("/usr/bin/kvm"), domain(None), "<domain type='test'/>"):
        assert distribution.for_host(debian, text) == text
    assert offered.reasons(rhel, domain(), "kvm2") == []


def test_a_qemu_that_somebody_chose_is_not_replaced():
    text = domain("/opt/qemu/bin/qemu-system-x86_64")
    assert distribution.for_host(Host(DEBIAN), text) == text
    (reason,) = offered.reasons(Host(DEBIAN), text, "kvm2")
    assert reason.startswith(
        "kvm2 has no /opt/qemu/bin/qemu-system-x86_64, the emulator of its domain; QEMU is"
        f" {DEBIAN} there: install it"
    )
    assert offered.reasons(Host(DEBIAN, "/opt/qemu/bin/qemu-system-x86_64"), text, "kvm2") == []


def test_machine_types_of_a_distribution_are_refused_by_another():
    rhel = Host(RHEL, machines=("pc-q35-rhel9.2.0", "q35"), driver="selinux")
    (reason,) = offered.reasons(rhel, domain(), "kvm2")
    assert reason.startswith(
        "the hypervisor of kvm2 cannot run its machine pc-q35-7.2 (the machine 'pc-q35-7.2' is not"
        " supported by"
    )
    (reason,) = offered.reasons(
        Host(DEBIAN), domain(RHEL, SVIRT, machine="pc-q35-rhel9.2.0"), "kvm1"
    )
    assert reason.startswith("the hypervisor of kvm1 cannot run its machine pc-q35-rhel9.2.0")


@pytest.mark.parametrize("label", [SVIRT, UBUNTU, PLAIN])
def test_labels_that_libvirt_chooses_do_not_hold_a_domain(label):
    text = domain(DEBIAN, label, DAC)
    assert offered.reasons(Host(DEBIAN), text, "kvm2") == []
    assert [
        each.get("model")
        for each in ET.fromstring(distribution.for_host(Host(DEBIAN), text)).findall("seclabel")
    ] == ["dac"]
    same = Host(DEBIAN, driver=ET.fromstring(label).get("model"))
    assert distribution.for_host(same, text) == text


@pytest.mark.parametrize(
    "label", [STATIC, BASE, "<seclabel type='dynamic' model='selinux' relabel='no'/>"]
)
def test_labels_that_somebody_gave_stay_and_need_their_driver(label):
    text = domain(DEBIAN, label)
    assert distribution.for_host(Host(DEBIAN), text) == text
    for driver in ("none", "apparmor"):
        (reason,) = offered.reasons(Host(DEBIAN, driver=driver), text, "kvm2")
        assert reason.startswith(
            "it has a label of selinux of its own, and libvirt of kvm2 works without selinux: use"
            " the same security_driver"
        )
    assert offered.reasons(Host(DEBIAN, driver="selinux"), text, "kvm2") == []
