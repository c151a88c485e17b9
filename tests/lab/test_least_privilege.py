# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that a user in the group libvirt can do by docs/security.md, tried by a user without
other rights."""

from __future__ import annotations

import json

import pytest
from test_fleet import IMAGE, SHARED

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

IMAGES = IMAGE.rpartition("/")[0]
USER = f"""
set -e
sed 's/^libvirt:.*/&drover/' /etc/group > /run/group
echo drover:x:64100: >> /run/group
cp /etc/passwd /run/passwd
echo 'drover:*:64100:64100::/run/drover-home:/bin/sh' >> /run/passwd
mount --bind /run/passwd /etc/passwd
mount --bind /run/group /etc/group
mkdir -p /run/drover-home
cp -a /root/.ssh /run/drover-home/
chown -R drover:drover /run/drover-home
chgrp libvirt /run/libvirt/libvirt-sock {SHARED} {IMAGES}
chmod 770 /run/libvirt/libvirt-sock
chmod 2775 {SHARED} {IMAGES}
"""
BACK = (
    "umount /etc/passwd; umount /etc/group; chmod 777 /run/libvirt/libvirt-sock; chgrp root"
    f" {SHARED} {IMAGES}; true"
)


@pytest.fixture
def as_drover(fleet):
    """Return the fleet, and the words that make Ansible and the migrations the user drover."""
    fleet.everywhere(USER)
    config = fleet.lab.layout.ssh_config
    words = {
        "ansible_user": "drover",
        # Do not use root's connection, which the lab keeps open.
        "ansible_ssh_common_args": f"-o ControlPath=none -F {config}",
        "drover_migration_uri": "qemu+ssh://drover@{{ inventory_hostname }}/system",
    }
    yield fleet, words
    fleet.everywhere(BACK)


def test_discover_place_drain(as_drover):
    fleet, words = as_drover
    who = ["-e", json.dumps(words)]
    fleet.playbook("discover", *who)
    assert fleet.query("SELECT count(*) FROM services WHERE last_error IS NULL") == [(3,)]
    fleet.place(
        [{"name": "web1", "memory_mb": 64, "disks": [{"size_gb": 1, "image": IMAGE}]}], *who
    )
    ((host, state),) = fleet.settled().values()
    assert state == "running"
    fleet.playbook("drain", *who, "-e", f"drover_host={host}")
    ((now, state),) = fleet.settled().values()
    assert now != host and state == "running"
    fleet.playbook("undrain", *who, "-e", f"drover_host={host}")
    fleet.playbook(
        "instance_stop",
        *who,
        "-e",
        "drover_instance=web1",
        "-e",
        "drover_instance_force=true",
        "-e",
        "drover_instance_timeout=1",
    )
    fleet.playbook("instance_delete", *who, "-e", "drover_instance=web1")
    assert fleet.where() == {}


def test_who_is_not_in_the_group_is_told(as_drover):
    fleet, words = as_drover
    fleet.everywhere(
        "sed 's/^libvirt:.*/libvirt:x:64054:/' /etc/group > /run/without; cat /run/without >"
        " /etc/group"
    )
    done = fleet.playbook("discover", "-e", json.dumps(words), check=False)
    said = " ".join((done.stdout + done.stderr).split())
    assert "ermission denied" in said and "Traceback" not in said, said
