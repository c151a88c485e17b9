# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The walk over the reports of a discovery: the parts of the writers, and contradictions."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data
from ansible_collections.drover.compute.plugins.plugin_utils._tracker.walk import Walk
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

DISK = {
    "target": "vda",
    "type": "file",
    "source": "/srv/web.qcow2",
    "path": "/srv/web.qcow2",
    "capacity_bytes": 2**30,
}


def walk(*nodes):
    return Walk(node_data.reports(nodes, "unused", {}), {})


def node(name, of, **more):
    return {**host(of, **more), "hypervisor_hostname": name}


def test_each_writer_has_its_part():
    walked = walk(
        host("kvm1", domain("web", disks=[DISK]), availability_zone="az1", labels={"rack": "a"}),
        node("inner", "kvm1", labels={"rack": "a"}),
        host("kvm2"),
    )
    assert list(walked.nodes) == [("kvm1", "kvm1"), ("kvm1", "inner"), ("kvm2", "kvm2")]
    assert walked.names["kvm1", "kvm1"] == "kvm1" and walked.names["kvm1", "inner"] == "kvm1/inner"
    assert walked.zones == {"kvm1": "az1"}
    (web,) = walked.domains["kvm1", "kvm1"].values()
    assert web["columns"]["local_disks"] is True
    uses = walked.files["kvm1", "kvm1"][uuid_of("web")]
    assert uses == {("/srv/web.qcow2", None, True)}
    assert walked.domains["kvm2", "kvm2"] == {}


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((host("kvm1"), host("kvm1")), "reports two compute nodes named kvm1"),
        (
            (host("kvm1", availability_zone="a"), node("inner", "kvm1", availability_zone="b")),
            "would be in two availability zones",
        ),
        (
            (host("kvm1", labels={"rack": "a"}), node("inner", "kvm1", labels={"rack": "b"})),
            "would have two sets of labels",
        ),
    ],
)
def test_nodes_of_one_host_that_contradict_each_other(nodes, words):
    with pytest.raises(DroverError, match=words):
        walk(*nodes)
