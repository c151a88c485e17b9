# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU features that a hypervisor can give its guests. A fake hypervisor that intersects
features takes the place of libvirt."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import libvirt
import pytest

from ansible_collections.drover.compute.plugins.module_utils._host import model

HOST_MODEL = """<domainCapabilities><cpu><mode name='host-model' supported='yes'><model fallback='forbid'>Haswell</model>
<vendor>Intel</vendor><feature policy='require' name='vme'/><feature policy='require' name='ss'/><feature policy='disable' name='hle'/>
</mode></cpu></domainCapabilities>"""
#: The features of the model.
HASWELL = {"aes", "avx2", "hle"}
HVM = [["x86_64", "qemu", "hvm"], ["x86_64", "kvm", "hvm"]]


class Conn:
    """A hypervisor that knows one model."""

    def __init__(self, capabilities=HOST_MODEL, error=None):
        self.capabilities, self.error, self.kinds = capabilities, error, []

    def getDomainCapabilities(self, _emulator, arch, _machine, kind, _flags):  # noqa: N802
        self.kinds.append((arch, kind))
        return self.capabilities

    def baselineHypervisorCPU(self, _emulator, _arch, _machine, _kind, cpus, flags):  # noqa: N802
        if self.error is not None:
            problem = libvirt.libvirtError("no")
            problem.err = (self.error, 0, "no", 0, "", "", "", 0, 0)
            raise problem
        (text,) = cpus
        assert flags & libvirt.VIR_CONNECT_BASELINE_CPU_MIGRATABLE
        kept_features = set(HASWELL)
        for each in ET.fromstring(text).findall("feature"):
            (kept_features.add if each.get("policy") == "require" else kept_features.discard)(
                each.get("name")
            )
        if flags & libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES:
            policies = dict.fromkeys(kept_features, "require")
        else:
            policies = {
                **dict.fromkeys(kept_features - HASWELL, "require"),
                **dict.fromkeys(HASWELL - kept_features, "disable"),
            }
        features = "".join(
            f"<feature policy='{policy}' name='{name}'/>" for name, policy in policies.items()
        )
        return (
            "<cpu mode='custom' match='exact'><model"
            f" fallback='forbid'>Haswell</model><vendor>Intel</vendor>{features}</cpu>"
        )


def test_all_features_of_the_best_type():
    conn = Conn()
    found = model.read(conn, "x86_64", HVM)
    assert found == {
        "arch": "x86_64",
        "type": "kvm",
        "vendor": "Intel",
        "model": "Haswell",
        "features": ["aes", "avx2", "ss", "vme"],
    }
    assert conn.kinds == [("x86_64", "kvm")]
    assert model.read(Conn(), "x86_64", HVM[:1])["type"] == "qemu"


def test_where_libvirt_does_not_tell():
    assert model.read(Conn(), "x86_64", [["i686", "test", "hvm"]]) is None
    assert model.read(Conn("<domainCapabilities/>"), "x86_64", HVM) is None
    assert model.read(Conn(error=libvirt.VIR_ERR_NO_SUPPORT), "x86_64", HVM) is None
    with pytest.raises(libvirt.libvirtError):
        model.read(Conn(error=libvirt.VIR_ERR_INTERNAL_ERROR), "x86_64", HVM)


def test_features_that_other_hosts_lack_are_not_in_it():
    found = model.baseline(Conn(), "x86_64", "kvm", ["aes", "vme", "vmx-apicv"])
    assert found == {
        "vendor": "Intel",
        "model": "Haswell",
        "policies": {"vme": "require", "avx2": "disable", "hle": "disable"},
        "features": ["aes", "vme"],
    }
    assert model.baseline(Conn("<domainCapabilities/>"), "x86_64", "kvm", []) is None
