# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with a libvirt that accepts connections and does not answer is recorded as unreachable."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import play
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host


@pytest.fixture
def hanging(tmp_path):
    """Return the URI of a libvirt that does not answer."""
    path = tmp_path / "libvirt-sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield f"qemu:///system?socket={path}"


def test_safety_09_no_answer_in_time_is_no_answer(prepared_url, tmp_path, hanging):
    fleets.discover(prepared_url, host("localhost"))
    read = {"uris": [hanging], "store_url": prepared_url}
    began = time.monotonic()
    code, output = play(
        tmp_path,
        [
            {
                "drover.compute.compute_node": read,
                "timeout": 4,
                "register": "seen",
                "ignore_errors": True,
            },
            {
                "ansible.builtin.debug": {
                    "msg": "{{ 'no nodes' if seen.nodes is not defined else seen.nodes }}"
                }
            },
        ],
        vars={"ansible_python_interpreter": sys.executable},
    )
    assert (code, time.monotonic() - began < 25) == (0, True), output
    assert "no nodes" in output
    with Store.open(prepared_url).read() as connection:
        service = services.get(connection, "localhost")
    assert service.last_error == "it did not answer within 4 s"


def test_a_name_that_is_no_host_is_not_recorded_as_one_that_is_down(prepared_url, tmp_path):
    """The host is in no inventory. It could never be read, and would block every new placement for
    ever."""
    read = {
        "uris": ["qemu:///system?socket=/nowhere/libvirt-sock"],
        "host": "kmv1",
        "store_url": prepared_url,
    }
    code, output = play(
        tmp_path,
        [{"drover.compute.compute_node": read}],
        vars={"ansible_python_interpreter": sys.executable},
    )
    assert code != 0 and "/nowhere/libvirt-sock" in output
    with Store.open(prepared_url).read() as connection:
        with pytest.raises(DroverError, match="which is empty"):
            services.get(connection, "kmv1")
