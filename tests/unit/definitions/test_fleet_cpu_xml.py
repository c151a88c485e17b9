# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cpu: fleet of a definition, and its effect in the XML of a domain."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    fleet_cpu_xml,
    guest,
)

CPU = {
    "mode": "custom",
    "model": "Haswell",
    "vendor": "Intel",
    "features": {"vme": "require", "hle": "disable"},
}


def test_what_may_be_written():
    fleet = {"mode": "fleet", "model": None}
    assert (
        guest.checked_cpu("fleet", "web")
        == guest.checked_cpu({"mode": "fleet"}, "web")
        == guest.checked_cpu(fleet, "web")
        == fleet
    )
    with pytest.raises(
        DroverError, match="cpu must be fleet, or a mapping with a mode or a model, not 'cluster'"
    ):
        guest.checked_cpu("cluster", "web")
    with pytest.raises(
        DroverError,
        match="the mode fleet has a model and features of its own. Take features and model out",
    ):
        guest.checked_cpu(
            {"mode": "fleet", "model": "Haswell", "features": {"vme": "require"}}, "web"
        )


def test_the_domain_gets_the_cpu_and_keeps_its_topology():
    text = (
        "<domain type='kvm'><cpu mode='fleet'><topology sockets='1' cores='2'"
        " threads='1'/></cpu><vcpu>2</vcpu></domain>"
    )
    kinds = []
    cpu = ET.fromstring(fleet_cpu_xml.resolved(text, lambda kind: kinds.append(kind) or CPU)).find(
        "cpu"
    )
    assert kinds == ["kvm"] and cpu.attrib == {"mode": "custom", "match": "exact"}
    assert (
        cpu.findtext("model"),
        cpu.findtext("vendor"),
        cpu.find("topology").get("cores"),
    ) == ("Haswell", "Intel", "2")
    assert {each.get("name"): each.get("policy") for each in cpu.findall("feature")} == CPU[
        "features"
    ]


@pytest.mark.parametrize(
    "text", ["<domain><cpu mode='host-model'/></domain>", "<domain/>", "<domain", "text"]
)
def test_other_xml_stays_as_it_is(text):
    def no(_kind):
        raise AssertionError("nothing asks for it")

    assert fleet_cpu_xml.resolved(text, no) == text
