# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action that works on several hosts reaches each as Ansible does: a drain from localhost, in
ansible-playbook itself.
"""

from __future__ import annotations

import socket
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import play
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host

#: A host of the inventory that is this machine, with libvirt's test driver as its libvirt; its
#: variables are templates.
KVM1 = {
    "name": "kvm1",
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "drover_uris": ["test:///{{ 'default' }}"],
    "drover_instances_path": "/",
}
#: A host without an answer.
KVM2 = {"name": "kvm2", "ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}


def drain(folder, url, name, inventory=(KVM1, KVM2), **keywords):
    """Run the task in a play.

    :param keywords: more keywords of the task.
    """
    drain_options = {"host": name, "plan_only": True, "unmovable": "skip", "store_url": url}
    return play(
        folder,
        [
            *({"ansible.builtin.add_host": each} for each in inventory),
            {"drover.compute.drain": drain_options, "register": "drained", **keywords},
            {
                "ansible.builtin.debug": {
                    "msg": (
                        "{{ drained.message | default('') }} {{ drained.staying | default([]) |"
                        " map(attribute='name') | list }}"
                    )
                }
            },
        ],
    )


def test_a_host_is_read_with_its_own_connection_and_variables(prepared_url, tmp_path):
    pytest.importorskip("libvirt")
    fleets.discover(prepared_url, host("kvm1"))
    code, output = drain(tmp_path, prepared_url, "kvm1")
    # The one domain of libvirt's test driver, which has no destination.
    assert (
        code == 0 and "Nothing was changed: this is the plan of a drain of kvm1. ['test']" in output
    ), output


def test_a_host_that_cannot_be_reached_is_a_sentence(prepared_url, tmp_path):
    fleets.discover(prepared_url, host("kvm2"))
    code, said = drain(tmp_path, prepared_url, "kvm2")
    assert code != 0 and "Host kvm2 cannot be reached" in said and "Traceback" not in said, said
    with Store.open(prepared_url).read() as connection:
        assert services.get(connection, "kvm2").last_error


def test_the_time_limit_of_the_task_ends_it_and_is_no_fault_of_the_host(prepared_url, tmp_path):
    """Ansible's executor catches the alarm of the calling task while a module runs; the code after
    it must not continue."""
    pytest.importorskip("libvirt")
    fleets.discover(prepared_url, host("kvm1"))
    path = tmp_path / "libvirt-sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        deaf = {**KVM1, "drover_uris": [f"qemu:///system?socket={path}"]}
        began = time.monotonic()
        code, said = drain(tmp_path, prepared_url, "kvm1", [deaf], timeout=5, ignore_errors=True)
    assert code == 0 and time.monotonic() - began < 30, said
    assert "The time limit of the task has passed" in said and "Traceback" not in said, said
    with Store.open(prepared_url).read() as connection:
        assert services.get(connection, "kvm1").last_error is None


@pytest.mark.parametrize("timeout", [0, 60])
def test_safety_09_a_call_with_a_limit_ends_and_the_task_goes_on(prepared_url, tmp_path, timeout):
    """A libvirt that accepts connections and does not answer counts as one without an answer; the
    time limit of the calling task still runs."""
    pytest.importorskip("libvirt")
    fleets.discover(prepared_url, host("kvm1"))
    with Store.open(prepared_url).write() as connection:
        services.record_unreachable(connection, "kvm1", "timed out", time.time())
    path = tmp_path / "libvirt-sock"
    evacuation = {
        "host": "kvm1",
        "state": "judged",
        "others": [],
        "call_timeout": 3,
        "plan_only": True,
        "store_url": prepared_url,
    }
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        deaf = {**KVM1, "drover_uris": [f"qemu:///system?socket={path}"]}
        code, output = play(
            tmp_path,
            [
                {"ansible.builtin.add_host": deaf},
                {"drover.compute.evacuate": evacuation, "timeout": timeout},
            ],
        )
    assert code == 0, output
    assert (
        "kvm1 answers over SSH, only its libvirt does not: libvirt is restarted" in output
        and "Traceback" not in output
    ), output
    # libvirt's own limit is longer.
    with Store.open(prepared_url).read() as connection:
        assert services.get(connection, "kvm1").last_error == "it did not answer within 3 s"
