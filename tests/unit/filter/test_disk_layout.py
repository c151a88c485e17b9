# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the disks of a definition."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.filter._disk_layout import disk_layout


def make(disk, images=None):
    (found,) = disk_layout([{"size_gb": 1, **disk}], "/srv/web", images)
    return found["make"]


@pytest.mark.parametrize(
    ("disk", "backed"),
    [
        ({}, {}),
        (
            {"image": "/srv/base.qcow2"},
            {"backing_file": "/srv/base.qcow2", "backing_format": "qcow2"},
        ),
        (
            {"image": "/srv/base.raw", "image_format": "raw"},
            {"backing_file": "/srv/base.raw", "backing_format": "raw"},
        ),
        # The hypervisor reads the format of a named image if the definition has no format.
        ({"image": "debian"}, {"backing_file": "/srv/_base/1", "backing_format": None}),
        (
            {"image": "debian", "image_format": "raw"},
            {"backing_file": "/srv/_base/1", "backing_format": "raw"},
        ),
        # In check mode the image does not exist yet.
        ({"image": "coming"}, {}),
    ],
)
def test_what_a_disk_is_backed_by(disk, backed):
    images = {"debian": "/srv/_base/1", "coming": None}
    assert make(disk, images) == {
        "path": "/srv/web-vda.qcow2",
        "size_gb": 1,
        "format": "qcow2",
        **backed,
    }


def test_a_disk_in_a_pool_is_in_its_folder():
    pools = {"fast": {"type": "dir", "path": "/srv/fast"}}
    first, second = disk_layout(
        [{"size_gb": 1}, {"size_gb": 2, "pool": "fast"}], "/images/web-1234 ", None, pools
    )
    assert (first["path"], second["path"]) == (
        "/images/web-1234-vda.qcow2",
        "/srv/fast/web-1234-vdb.qcow2",
    )
    assert second["make"] == {
        "path": "/srv/fast/web-1234-vdb.qcow2",
        "size_gb": 2,
        "format": "qcow2",
    }


@pytest.mark.parametrize(
    ("pools", "sentence"),
    [
        ({}, "has no storage pool fast by its last discovery"),
        (
            {"fast": {"type": "disk", "path": "/dev"}},
            "is of the type disk, in which no disk of a definition is made",
        ),
        ({"fast": {"type": "dir", "path": None}}, "is of the type dir"),
    ],
)
def test_a_pool_without_a_folder_is_refused(pools, sentence):
    with pytest.raises(AnsibleFilterError, match=sentence):
        disk_layout([{"size_gb": 1, "pool": "fast"}], "/images/web", None, pools)


def test_a_disk_in_a_pool_of_volumes_is_a_volume_with_the_uuid_in_its_name():
    pools = {"ceph": {"type": "rbd", "path": None}}
    (disk,) = disk_layout(
        [{"size_gb": 2, "pool": "ceph"}], "/images/web-1234", None, pools, "1234-5678"
    )
    place = {"pool": "ceph", "volume": "1234-5678-vda"}
    assert disk == {
        "target": "vda",
        "path": None,
        **place,
        "format": "raw",
        "source": None,
        "make": {**place, "size_gb": 2, "format": "raw"},
    }
    (disk,) = disk_layout(
        [{"size_gb": 2, "pool": "ceph", "image": "/i.qcow2"}], "/images/web", None, pools, "1234"
    )
    assert (
        disk["make"]["backing_file"],
        disk["make"]["backing_format"],
        disk["make"]["format"],
    ) == ("/i.qcow2", "qcow2", "raw")
    with pytest.raises(AnsibleFilterError, match="needs the uuid"):
        disk_layout([{"size_gb": 2, "pool": "ceph"}], "/images/web", None, pools)
