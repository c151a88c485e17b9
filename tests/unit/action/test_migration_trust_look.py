# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A discovery examines the other hypervisors: by the URIs in the store, without the variables of
each host."""

from __future__ import annotations

import json
import os
import sys

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import ansible

NODE = """<node>
  <cpu><mhz>2000</mhz><model>x86_64</model><active>8</active><nodes>1</nodes><sockets>2</sockets><cores>4</cores><threads>1</threads></cpu>
  <memory>16777216</memory>
</node>
"""
#: A program in place of ssh. It records its arguments and connects to nothing.
SSH = """#!/bin/sh
echo "$@" >> {asked}
exit 1
"""


@pytest.fixture
def asked(tmp_path):
    """``asked(host, names)`` discovers a host in a fleet of these and returns the arguments of each
    call of ssh."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH.format(asked=tmp_path / "asked"))
    (tmp_path / "bin" / "ssh").chmod(0o755)
    (tmp_path / "node.xml").write_text(NODE)
    own = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "drover_uris": [f"test://{tmp_path}/node.xml"],
        "drover_instances_path": str(tmp_path),
    }

    def discover(host, names, *words, **variables):
        (tmp_path / "asked").write_text("")
        hosts = {name: {**own, **variables.get(name, {})} for name in names}
        (tmp_path / "hosts.json").write_text(json.dumps({"hypervisors": {"hosts": hosts}}))
        code, text = ansible(
            tmp_path,
            "playbook",
            "drover.compute.discover",
            *("-i", "hosts.json", "--limit", f"{host},localhost", *words),
            environment={
                "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                "DROVER_STORE_URL": f"sqlite:///{tmp_path}/store.db",
            },
        )
        assert code == 0, text
        return [line.split() for line in (tmp_path / "asked").read_text().splitlines()]

    return discover


def test_the_peers_are_those_that_the_store_has(asked):
    # The libvirt of this host is not QEMU: hosts without a URI in the store are not examined.
    assert asked("kvm1", ["kvm1", "kvm2", "kvm3"]) == []
    assert (
        asked(
            "kvm2",
            ["kvm1", "kvm2", "kvm3"],
            kvm2={"drover_migration_uri": "qemu+ssh://drover@10.0.0.2:2222/system"},
        )
        == []
    )
    assert asked("kvm1", ["kvm1", "kvm2", "kvm3"]) == [
        ["-G", "-o", "BatchMode=yes", "-l", "drover", "-p", "2222", "--", "10.0.0.2"],
    ]


@pytest.mark.parametrize("wanted", [["kvm1", "kvm2"], ["hypervisors"], "kvm1,kvm2"])
def test_hypervisors_that_are_a_list(asked, wanted):
    """The discovery works; with a limit the play has no other host to examine."""
    words = ("-e", json.dumps({"drover_hypervisors": wanted}))
    assert (
        asked(
            "kvm2",
            ["kvm1", "kvm2"],
            *words,
            kvm2={"drover_migration_uri": "qemu+ssh://drover@10.0.0.2:2222/system"},
        )
        == []
    )
