# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of the disks of a definition."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.filter._disk_layout import disk_layout


def make(disk, images=None):
    (found,) = disk_layout([{"size_gb": 1, **disk}], "/srv/web", images)
    return found["make"]


@pytest.mark.parametrize(
    ("disk", "backed"),
    [
        ({}, {}),
        ({"image": "/srv/base.qcow2"}, {"backing_file": "/srv/base.qcow2", "backing_format": "qcow2"}),
        ({"image": "/srv/base.raw", "image_format": "raw"}, {"backing_file": "/srv/base.raw", "backing_format": "raw"}),
        # The hypervisor reads the format of an image that has a name, if the definition does not say it.
        ({"image": "debian"}, {"backing_file": "/srv/_base/1", "backing_format": None}),
        ({"image": "debian", "image_format": "raw"}, {"backing_file": "/srv/_base/1", "backing_format": "raw"}),
        # In check mode it is not there yet.
        ({"image": "coming"}, {}),
    ],
)
def test_what_a_disk_is_backed_by(disk, backed):
    images = {"debian": "/srv/_base/1", "coming": None}
    assert make(disk, images) == {"path": "/srv/web-vda.qcow2", "size_gb": 1, "format": "qcow2", **backed}
