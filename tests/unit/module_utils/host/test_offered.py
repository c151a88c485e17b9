# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Features that a hypervisor does not have, from capabilities of QEMU 7.2 and libvirt 9.0 on Debian
12, shortened."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._host import offered


def enum(name, *values):
    return f"<enum name='{name}'>{''.join(f'<value>{value}</value>' for value in values)}</enum>"


FIRMWARE, SECURE, NOT_SECURE = (
    enum("firmware", "efi"),
    enum("secure", "yes", "no"),
    enum("secure", "no"),
)
TPM = (
    "<tpm"
    f" supported='yes'>{enum('model', 'tpm-tis', 'tpm-crb')}{enum('backendModel', 'passthrough', 'emulator')}{enum('backendVersion', '1.2', '2.0')}</tpm>"
)
WITHOUT_SWTPM = (
    f"<tpm supported='yes'>{enum('model', 'tpm-tis')}{enum('backendModel', 'passthrough')}</tpm>"
)
CPU = (
    "<cpu><mode name='host-passthrough' supported='no'/><mode name='host-model'"
    " supported='yes'/><mode name='custom' supported='yes'><model usable='yes'>qemu64</model><model"
    " usable='no'>EPYC</model></mode></cpu>"
)


def capabilities(firmware=FIRMWARE, secure=SECURE, tpm=TPM, cpu=CPU, more=""):
    return (
        f"<domainCapabilities><arch>x86_64</arch><os supported='yes'>{firmware}<loader"
        f" supported='yes'>{secure}</loader></os>{cpu}<devices>"
        f"<disk supported='yes'>{enum('bus', 'fdc', 'scsi', 'virtio', 'usb', 'sata')}</disk>"
        f"<graphics supported='yes'>{enum('type', 'vnc')}</graphics>"
        "<video"
        f" supported='yes'>{enum('modelType', 'vga', 'virtio', 'none')}</video>{tpm}{more}</devices></domainCapabilities>"
    )


class Host:
    """A hypervisor with these answers."""

    def __init__(self, text, version=9000000):
        self.text, self.version, self.asked = text, version, []

    def getLibVersion(self):
        return self.version

    def getDomainCapabilities(self, *asked):
        self.asked.append(asked)
        if isinstance(self.text, libvirt.libvirtError):
            raise self.text
        return self.text


def domain(devices="", os="", kind="kvm", of_os="", cpu=""):
    return (
        f"<domain type='{kind}'><os{of_os}><type arch='x86_64'"
        f" machine='q35'>hvm</type>{os}</os>{cpu}<devices>{devices}</devices></domain>"
    )


SECURE_BOOT = "<firmware><feature enabled='yes' name='secure-boot'/></firmware>"
EMULATED = "<tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>"
VLAN = "<interface type='bridge'><source bridge='br0'/><vlan><tag id='7'/></vlan></interface>"
OVS = (
    "<interface type='bridge'><source bridge='br0'/><virtualport type='openvswitch'/><vlan><tag"
    " id='7'/></vlan></interface>"
)


@pytest.mark.parametrize(
    ("text", "host", "words"),
    [
        (domain(), {}, None),
        (domain(kind="test", devices="<video><model type='voodoo'/></video>"), {}, None),
        (
            domain(
                EMULATED + "<video><model type='vga'/></video><graphics type='vnc'/>",
                SECURE_BOOT,
                of_os=" firmware='efi'",
            ),
            {},
            None,
        ),
        (
            domain(of_os=" firmware='efi'"),
            {"firmware": enum("firmware")},
            "has no firmware efi; it has bios: install UEFI firmware there",
        ),
        # Only a host that reports its firmware is judged by it.
        (domain(of_os=" firmware='efi'"), {"firmware": ""}, None),
        (
            domain("", SECURE_BOOT, of_os=" firmware='efi'"),
            {"secure": NOT_SECURE},
            "has no firmware efi with Secure Boot; it has efi, bios",
        ),
        (
            domain(EMULATED),
            {"tpm": WITHOUT_SWTPM},
            "has no TPM backend emulator; it has passthrough: install swtpm there",
        ),
        (
            domain(EMULATED),
            {"tpm": "<tpm supported='no'/>"},
            "has no TPM model tpm-crb; it has none",
        ),
        (domain(EMULATED), {"tpm": ""}, None),
        (
            domain("<video><model type='qxl'/></video>"),
            {},
            (
                "the hypervisor of kvm1 has no video model qxl; it has vga, virtio, none: choose"
                " another one"
            ),
        ),
        (domain("<graphics type='spice'/>"), {}, "has no graphics type spice; it has vnc"),
        # libvirt has more of these than its list shows.
        (
            domain("<graphics type='egl-headless'/><disk><target dev='sda' bus='sd'/></disk>"),
            {},
            None,
        ),
        (domain("<disk><target dev='hda' bus='ide'/></disk>"), {}, "has no disk bus ide"),
        (domain(cpu="<cpu mode='custom'><model>qemu64</model></cpu>"), {}, None),
        # The features that the guest requires decide if the processor of the host can run the
        # model.
        (domain(cpu="<cpu mode='custom'><model>EPYC</model></cpu>"), {}, None),
        (
            domain(cpu="<cpu mode='custom'><model>EPYC-Next</model></cpu>"),
            {},
            "has no CPU model EPYC-Next",
        ),
        (
            domain(cpu="<cpu mode='host-passthrough'/>"),
            {},
            "has no CPU mode host-passthrough; it has host-model, custom",
        ),
        (domain(cpu="<cpu mode='maximum'/>"), {}, None),
        (
            domain(VLAN),
            {},
            "libvirt of kvm1 has no VLANs on a bridge of Linux, which came with libvirt 11.0",
        ),
        (domain(OVS), {}, None),
    ],
)
def test_what_is_missing_is_said(text, host, words):
    sentences = offered.reasons(Host(capabilities(**host)), text, "kvm1")
    if words is None:
        assert sentences == []
    else:
        assert any(words in each for each in sentences), sentences


def test_bridges_of_linux_have_vlans_later():
    assert offered.reasons(Host(capabilities(), 11000000), domain(VLAN), "kvm1") == []


@pytest.mark.parametrize("wish", ["yes", "no"])
def test_libvirt_before_7_2_picks_no_firmware_by_secure_boot(wish):
    text = domain("", SECURE_BOOT.replace("'yes'", f"'{wish}'"), of_os=" firmware='efi'")
    (said,) = offered.reasons(Host(capabilities(), 7000000), text, "kvm1")
    assert "libvirt of kvm1 cannot pick UEFI firmware with or without Secure Boot" in said
    assert offered.reasons(Host(capabilities(), 7002000), text, "kvm1") == []


def test_libvirt_before_7_2_offers_no_secure_boot():
    assert offered.read(Host(capabilities(), 7000000), "x86_64", KVM)["secure_boot"] == []


def test_each_is_said_once_and_the_machine_is_asked_for():
    host = Host(capabilities())
    assert (
        len(
            offered.reasons(
                host,
                domain("<video><model type='qxl'/></video>" * 2 + "<graphics type='spice'/>"),
                "kvm1",
            )
        )
        == 2
    )
    assert host.asked == [(None, "x86_64", "q35", "kvm", 0)]


def test_a_driver_without_capabilities_proves_nothing():
    connection = libvirt.open("test:///default")
    try:
        assert (
            offered.reasons(connection, domain("<video><model type='voodoo'/></video>"), "kvm1")
            == []
        )
    finally:
        connection.close()


def test_an_unknown_machine_is_said(monkeypatch):
    monkeypatch.setattr(offered.binding, "code_of", lambda exc: libvirt.VIR_ERR_INVALID_ARG)
    (sentence,) = offered.reasons(
        Host(libvirt.libvirtError("the machine is not supported")), domain(), "kvm1"
    )
    assert sentence.startswith(
        "the hypervisor of kvm1 cannot run its machine q35 ("
    ) and sentence.endswith("choose another host, or upgrade QEMU there")


KVM = [["x86_64", "qemu", "hvm"], ["x86_64", "kvm", "hvm"]]


def test_what_discovery_reads():
    host = Host(capabilities())
    assert offered.read(host, "x86_64", KVM) == {
        "firmware": ["efi"],
        "secure_boot": ["yes", "no"],
        "tpm_models": ["tpm-tis", "tpm-crb"],
        "tpm_versions": ["1.2", "2.0"],
        "video_models": ["vga", "virtio", "none"],
        "disk_buses": ["fdc", "scsi", "virtio", "usb", "sata"],
    }
    assert [each[1:4] for each in host.asked] == [("x86_64", "q35", "kvm"), ("x86_64", "pc", "kvm")]
    # Without swtpm libvirt has models, but only for a TPM of the host.
    found = offered.read(Host(capabilities(tpm=WITHOUT_SWTPM)), "x86_64", KVM[:1])
    assert found["tpm_models"] == found["tpm_versions"] == [] and "tpm_backends" not in found
    older = TPM.replace(enum("backendVersion", "1.2", "2.0"), "")
    assert offered.read(Host(capabilities(tpm=older)), "x86_64", KVM)["tpm_versions"] == [
        "1.2",
        "2.0",
    ]


@pytest.mark.parametrize(
    ("arch", "instances"),
    [("aarch64", KVM), (None, KVM), ("x86_64", [["x86_64", "test", "hvm"]]), ("x86_64", [])],
)
def test_what_libvirt_does_not_tell(arch, instances):
    assert offered.read(Host(capabilities()), arch, instances) is None
    assert offered.read(Host(libvirt.libvirtError("no")), "x86_64", KVM) is None
