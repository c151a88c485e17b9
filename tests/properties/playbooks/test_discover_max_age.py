# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook discover with drover_max_age reads the hosts that were not read for that time, or
are down, and no others.
"""

from __future__ import annotations

import time

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host

INVENTORY = (
    "hypervisors: {hosts: {kvm1: {}, kvm2: {}}, vars: {ansible_connection: ssh, ansible_host:"
    " 127.0.0.1, ansible_port: 9}}\n"
)


def discover(url, folder, *words):
    """Run discover; return (exit code, its output). No host can be reached."""
    (folder / "hosts.yml").write_text(INVENTORY)
    given = ("-i", "hosts.yml", "-e", f"drover_store_url={url}", "drover.compute.discover", *words)
    return ansible(
        folder, "playbook", *given, environment={"ANSIBLE_DEPRECATION_WARNINGS": "false"}
    )


@pytest.mark.parametrize("age, read", [("600", {"kvm1"}), ("7200", set()), ("0", {"kvm1", "kvm2"})])
def test_only_older_hosts_are_read(tmp_path, age, read):
    url, now = f"sqlite:///{tmp_path / 'store.db'}", time.time()
    fleets.discover(url, host("kvm1"), now=now - 3600)
    fleets.discover(url, host("kvm2"), now=now - 60)
    code, said = discover(url, tmp_path, "-e", f"drover_max_age={age}")
    assert {name for name in ("kvm1", "kvm2") if f"fatal: [{name}]" in said} == read, said
    assert (code == 0) is (not read)
    # Hosts without an answer are down by now, and are read again.
    if read:
        again = discover(url, tmp_path, "-e", "drover_max_age=7200")[1]
        assert all(f"fatal: [{name}]" in again for name in read), again


@pytest.mark.parametrize("age", ['"10m"', "-5", "[600]", '{"a": 1}', "true"])
def test_what_is_no_number_is_refused(tmp_path, age):
    code, output = discover(
        f"sqlite:///{tmp_path / 'store.db'}", tmp_path, "-e", f'{{"drover_max_age": {age}}}'
    )
    assert (
        code != 0
        and "which is no number of seconds" in " ".join(output.split())
        and "fatal: [kvm2]" not in output
    ), output


def test_a_new_store_reads_all(tmp_path):
    said = discover(f"sqlite:///{tmp_path / 'store.db'}", tmp_path, "-e", "drover_max_age=600")[1]
    assert "fatal: [kvm1]" in said and "fatal: [kvm2]" in said, said
