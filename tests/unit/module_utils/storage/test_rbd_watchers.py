# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that have images of Ceph open: answers of ``rbd status`` in the form of Ceph 16;
tests/lab/test_ceph.py has the cluster itself."""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._storage import rbd_watchers

POOL = (
    "<pool type='rbd'><name>ceph</name><source><host name='10.99.0.254'"
    " port='6789'/><name>vms</name></source></pool>"
)
ANSWERS = {
    "vms/used": (
        '{"watchers":[{"address":"10.99.0.11:0/3801275244","client":4501,"cookie":140},{"address":"10.99.0.12:0/1","client":4502,"cookie":1}]}'
    ),
    "vms/free": '{"watchers":[]}',
    "vms/odd": '{"watchers":',
}
USED, FREE, ODD, GONE = (f"rbd:10.99.0.254:/vms/{name}" for name in ("used", "free", "odd", "gone"))


@pytest.fixture
def host(tmp_path, monkeypatch):
    lines = [
        f"*' status {image} --format json') echo '{text}' ;;" for image, text in ANSWERS.items()
    ]
    program = tmp_path / "rbd"
    program.write_text(
        "\n".join(
            [
                "#!/bin/sh",
                f'echo "$*" >> {tmp_path}/calls',
                'case "$*" in',
                *lines,
                "*) exit 2 ;;",
                "esac",
            ]
        )
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    conn = libvirt.open("test:///default")
    conn.storagePoolDefineXML(POOL)
    return conn


def test_an_image_with_a_watcher_is_in_use(host):
    assert rbd_watchers.watched(host, [USED, FREE, ODD, GONE]) == [USED]


def test_it_is_asked_at_the_servers_of_the_pool(host, tmp_path):
    rbd_watchers.watched(host, [FREE])
    assert (
        tmp_path / "calls"
    ).read_text() == "--conf /dev/null --mon-host 10.99.0.254:6789 status vms/free --format json\n"


@pytest.mark.parametrize(
    "other",
    ["rbd:10.99.0.253:/vms/used", "rbd:10.99.0.254:/other/used", "rbd:10.99.0.254:/vms/space/used"],
)
def test_of_another_cluster_or_pool_nothing_is_known(host, tmp_path, other):
    assert rbd_watchers.watched(host, [other]) == []
    assert not (tmp_path / "calls").exists()


def test_a_cluster_that_does_not_answer_takes_no_longer_for_many_images(
    host, tmp_path, monkeypatch
):
    """The same call reports if the dead host answers, and has 60 seconds for all."""
    monkeypatch.setattr(rbd_watchers, "PATIENCE", 0.5)
    (tmp_path / "rbd").write_text(f"#!/bin/sh\necho call >> {tmp_path}/calls\nexec sleep 60\n")
    assert (
        rbd_watchers.watched(host, [f"rbd:10.99.0.254:/vms/{number}" for number in range(32)]) == []
    )
    assert (tmp_path / "calls").read_text().count("call") == 1


def test_without_the_command_nothing_is_known(host, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert rbd_watchers.watched(host, [USED]) == []
