# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The blocklist of Ceph: answers of a real cluster (Ceph 16 and its commands);
tests/lab/test_storage_fence.py has the cluster itself.
"""

from __future__ import annotations

import json
import os
import sys

import pytest

from ansible_collections.drover.compute.plugins.module_utils._storage.ceph_fence import (
    CephProblem,
    Cluster,
)

DISK = "rbd:10.99.0.254:/vms/web-vda"
MONITORS = {
    "mons": [
        {
            "rank": 0,
            "name": "a",
            "public_addrs": {"addrvec": [{"type": "v1", "addr": "10.99.0.254:6789", "nonce": 0}]},
        }
    ]
}
LONG, SHORT = "2036-11-21T17:02:34.542311+0000", "2026-11-21T17:02:34.542311+0000"

PROGRAM = """#!{python}
import json, os, sys
state = json.load(open({state!r}))
words = [word for word in sys.argv[1:] if word not in ("--format", "json", "--connect-timeout", "20")]
state["calls"].append(words)
if words[:3] == ["osd", "blocklist", "add"]:
    state["blocklist"][words[3]] = "2036-11-21T17:02:34.542311+0000"
elif words[:3] == ["osd", "blocklist", "rm"]:
    del state["blocklist"][words[3]]
json.dump(state, open({state!r}, "w"))
if words[:2] == ["osd", "dump"]:
    print(json.dumps({{"epoch": 3, "blocklist": state["blocklist"], "range_blocklist": {{}}}}))
elif words[:2] == ["mon", "dump"]:
    print(json.dumps(state["monitors"]))
elif words[:1] == ["status"]:
    if words[1] not in state["watchers"]:
        sys.exit("rbd: error opening image web-vda: (2) No such file or directory")
    print(json.dumps({{"watchers": [{{"address": each, "client": 4501, "cookie": 1}} for each in state["watchers"][words[1]]]}}))
"""


class Ceph:
    """The commands ceph and rbd, with the state of a cluster."""

    def __init__(self, folder, monkeypatch):
        self.path = folder / "state.json"
        self.write(blocklist={}, monitors=MONITORS, watchers={"vms/web-vda": []}, calls=[])
        for name in ("ceph", "rbd"):
            (folder / name).write_text(PROGRAM.format(python=sys.executable, state=str(self.path)))
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.cluster = Cluster([])

    def state(self):
        return json.loads(self.path.read_text())

    def write(self, **values):
        self.path.write_text(json.dumps({**(self.state() if self.path.exists() else {}), **values}))


@pytest.fixture
def ceph(tmp_path, monkeypatch):
    return Ceph(tmp_path, monkeypatch)


def test_cut_verify_lift(ceph):
    assert ceph.cluster.cut(["10.99.0.11", "fd00::11"]) == ["10.99.0.11", "fd00::11"]
    assert set(ceph.state()["blocklist"]) == {"10.99.0.11:0/0", "[fd00::11]:0/0"}
    assert ceph.cluster.cut(["10.99.0.11", "fd00::11"]) == []
    ceph.write(watchers={"vms/web-vda": ["10.99.0.11:0/3801275244", "v1:[fd00::11]:0/12"]})
    assert ceph.cluster.verify(["10.99.0.11", "fd00::11"], [DISK]) == ([DISK], [])
    assert ceph.cluster.lift(["10.99.0.11", "fd00::11", "10.99.0.12"]) == ["10.99.0.11", "fd00::11"]
    assert ceph.state()["blocklist"] == {} and ceph.cluster.lift(["10.99.0.11"]) == []


def test_check_mode_changes_nothing(ceph):
    assert (
        ceph.cluster.cut(["10.99.0.11"], True) == ["10.99.0.11"] and ceph.state()["blocklist"] == {}
    )


@pytest.mark.parametrize(
    "blocklist",
    [{}, {"10.99.0.11:0/3801275244": LONG}, {"10.99.0.11:0/0": SHORT}, {"10.99.0.11:0/0": "soon"}],
)
def test_one_client_or_an_hour_is_not_shut_out(ceph, blocklist):
    ceph.write(blocklist=blocklist)
    with pytest.raises(
        CephProblem, match="10.99.0.11 is not on the blocklist of Ceph, or not for long"
    ):
        ceph.cluster.verify(["10.99.0.11"], [DISK])
    assert ceph.cluster.cut(["10.99.0.11"]) == ["10.99.0.11"]
    assert ceph.cluster.verify(["10.99.0.11"], [DISK]) == ([DISK], [])


@pytest.mark.parametrize(
    "disk, watchers, why",
    [
        (DISK, ["10.99.0.11:0/1", "10.99.0.12:0/2"], "10.99.0.12 has it open and is not shut out"),
        ("rbd:10.99.0.7:/vms/web-vda", [], "are not those of this cluster"),
        ("rbd:10.99.0.254,no.such.host.invalid:/vms/web-vda", [], "are not those of this cluster"),
        ("rbd:10.99.0.254:/vms/lost", [], "it is not known who has it open (rbd status vms/lost"),
        ("nfs:a:/x/web.qcow2", [], "it is no image of Ceph"),
        (DISK, ["words"], "it is not known who has it open"),
    ],
)
def test_disks_that_are_not_cut_off(ceph, disk, watchers, why):
    ceph.write(blocklist={"10.99.0.11:0/0": LONG}, watchers={"vms/web-vda": watchers})
    cut, problems = ceph.cluster.verify(["10.99.0.11"], [disk])
    assert cut == [] and len(problems) == 1 and why in problems[0]


@pytest.mark.parametrize(
    "server", ["10.99.0.254", "10.99.0.254:6789", "10.99.0.254,10.99.0.254:3300"]
)
def test_monitors_with_and_without_ports(ceph, server):
    ceph.write(blocklist={"10.99.0.11:0/0": LONG})
    disk = f"rbd:{server}:/vms/web-vda"
    assert ceph.cluster.verify(["10.99.0.11"], [disk]) == ([disk], [])


def test_a_command_that_is_missing_or_fails_is_a_sentence(ceph, tmp_path, monkeypatch):
    (tmp_path / "ceph").write_text("#!/bin/sh\necho 'Error EACCES: access denied' >&2\nexit 13\n")
    with pytest.raises(
        CephProblem, match=r"ceph .*osd dump.* failed on .* \(Error EACCES: access denied\)"
    ):
        ceph.cluster.cut(["10.99.0.11"])
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(
        CephProblem,
        match="the command ceph is not on .*: install ceph-common there, or set drover_ceph_admin",
    ):
        ceph.cluster.cut(["10.99.0.11"])
