# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The type of domain and the CPU that a guest gets, and their place in its XML."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._guest import FilterModule
from ansible_collections.drover.compute.tests.unit import examples

guest = FilterModule().filters()["_guest"]
HOST_MODEL = {"mode": "host-model", "model": None}
QEMU64 = {"mode": "custom", "model": "qemu64"}


def claim(offered="kvm", **wanted):
    return {"name": "web", "host": "kvm1", "domain_type": offered, "guest": wanted}


@pytest.mark.parametrize(
    ("given", "of_host", "expected"),
    [
        (claim(), (None, None), ("kvm", HOST_MODEL)),
        (claim("qemu"), (None, None), ("qemu", None)),
        (claim("test"), (None, None), ("test", None)),
        (claim(), ("", ""), ("kvm", HOST_MODEL)),
        (claim(), ("qemu", None), ("qemu", None)),
        (claim(), (None, {"model": "qemu64"}), ("kvm", QEMU64)),
        (claim(), (None, {"mode": "custom", "model": "qemu64"}), ("kvm", QEMU64)),
        (
            claim(),
            (None, {"mode": "host-passthrough"}),
            ("kvm", {"mode": "host-passthrough", "model": None}),
        ),
        (claim("qemu"), (None, {"mode": "maximum"}), ("qemu", {"mode": "maximum", "model": None})),
        # A definition has precedence over its host.
        (
            claim(domain_type="kvm", cpu={"model": "qemu64"}),
            ("qemu", {"mode": "maximum"}),
            ("kvm", QEMU64),
        ),
        (claim(domain_type="qemu"), ("kvm", None), ("qemu", None)),
    ],
)
def test_what_it_gets(given, of_host, expected):
    found = guest(given, *of_host)
    assert (found["domain_type"], found["cpu"]) == expected


@pytest.mark.parametrize(
    ("given", "of_host", "words"),
    [
        (
            claim(),
            ("xen", None),
            (
                "Instance web on kvm1, drover_domain_type and drover_cpu: domain_type must be kvm"
                " or qemu, not 'xen'"
            ),
        ),
        (claim(), ("kvm' x='", None), "domain_type must be kvm or qemu"),
        (claim(), (["kvm"], None), "domain_type must be kvm or qemu"),
        (
            claim(),
            (None, "qemu64"),
            "cpu must be fleet, or a mapping with a mode or a model, not 'qemu64'",
        ),
        (
            claim(),
            (None, {"mode": "fast"}),
            "cpu: mode must be custom, host-model, host-passthrough, maximum or fleet, not 'fast'",
        ),
        (
            claim(),
            (None, {"mode": "custom"}),
            "cpu has a model with the mode custom, and only then",
        ),
        (
            claim(),
            (None, {"mode": "host-model", "model": "qemu64"}),
            "cpu has a model with the mode custom, and only then",
        ),
        (
            claim(),
            (None, {"model": "<qemu64/>"}),
            "cpu: model must be a name of letters, digits, dots and hyphens, not '<qemu64/>'",
        ),
        (claim(), (None, {"model": 5}), "cpu: model must be a text, not 5"),
        (
            claim(),
            (None, {"mode": "maximum", "features": []}),
            "cpu: features must be a mapping, not []",
        ),
        (
            claim("qemu", domain_type="kvm"),
            (None, None),
            "its domain_type is kvm, which the host does not offer: only qemu",
        ),
        (
            claim("qemu"),
            (None, {"mode": "host-passthrough"}),
            "host-passthrough needs KVM, and its domain_type is qemu",
        ),
    ],
)
def test_nonsense_is_said(given, of_host, words):
    with pytest.raises(AnsibleFilterError) as caught:
        guest(given, *of_host)
    assert words in str(caught.value)


def test_the_role_makes_its_xml_of_it(tmp_path):
    """Render the template of the role, with variables of two hosts."""
    template = str(examples.ROOT / "roles" / "place" / "templates" / "domain.xml.j2")
    by_host = {
        "kvm1": {"drover_cpu": {"model": "qemu64"}},
        "kvm2": {"drover_domain_type": "qemu"},
        "kvm3": {},
    }
    hosts = {name: {"ansible_connection": "local", **values} for name, values in by_host.items()}
    (tmp_path / "inventory.yml").write_text(json.dumps({"all": {"hosts": hosts}}))
    tasks = []
    for name in by_host:
        place_claim = {
            **claim(),
            "host": name,
            "uuid": "5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01",
            "arch": "x86_64",
            "memory_mb": 64,
            "vcpus": 1,
            "networks": [],
        }
        variables = {"place_claim": place_claim, "place_disks": [], "place_seed": {}}
        tasks.append(
            {
                "ansible.builtin.template": {
                    "src": template,
                    "dest": str(tmp_path / name),
                    "mode": "0600",
                },
                "vars": variables,
            }
        )
    examples.write_play(tmp_path, [{"hosts": "localhost", "gather_facts": False, "tasks": tasks}])
    done = examples.command(tmp_path, "ansible-playbook", "-i", "inventory.yml", "example.yml")
    assert done.returncode == 0, done.stdout
    made = {name: ET.parse(tmp_path / name).getroot() for name in by_host}
    assert {
        name: (root.get("type"), None if root.find("cpu") is None else root.find("cpu").get("mode"))
        for name, root in made.items()
    } == {"kvm1": ("kvm", "custom"), "kvm2": ("qemu", None), "kvm3": ("kvm", "host-model")}
    assert made["kvm1"].findtext("cpu/model").strip() == "qemu64"
