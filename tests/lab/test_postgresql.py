# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All steps with the store on PostgreSQL; its password is never in an output."""

from __future__ import annotations

import json
import urllib.parse

import pytest
from test_fleet import Domain, Fleet, changed, clean

from ansible_collections.drover.compute.tests.unit import postgres as server

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

postgres = server.postgres


def test_discover_place_drain(own_lab, tmp_path, postgres):
    clean(own_lab)
    with postgres.database() as url:
        fleet = Fleet(own_lab, tmp_path, url)
        variables = tmp_path / "variables.json"
        variables.write_text(
            json.dumps(
                {
                    "drover_store_url": url,
                    "drover_host": "kvm3",
                    "drover_instance_definitions": [
                        {
                            "name": name,
                            "memory_mb": 64,
                            "disks": [{"size_gb": 1}],
                            "server_group": "web",
                        }
                        for name in ("web1", "web2")
                    ],
                    "drover_server_groups": [{"name": "web", "policy": "anti-affinity"}],
                }
            )
        )
        fleet.make("kvm1", Domain("old", state="shutoff"))
        output = ""
        # The URL comes only from the variable, and Ansible has its highest verbosity.
        for name in ("discover", "place", "drain", "place"):
            done = own_lab.playbook(
                f"drover.compute.{name}", "-e", f"@{variables}", "-vvv", "--diff"
            )
            output += done.stdout + done.stderr
            if name == "place":
                again, where = changed(done), fleet.settled()
                assert (
                    set(where) == {"old", "web1", "web2"} and where["web1"][0] != where["web2"][0]
                )
            elif name == "drain":
                assert "kvm3" not in {host for host, dummy in fleet.settled().values()}
                assert fleet.service("kvm3")["maintenance"]
        assert again == 0
        assert (
            where["old"] == ("kvm1", "shutoff")
            and where["web1"][1] == where["web2"][1] == "running"
        )
        # The message about a server that does not answer has no password either.
        wrong = url.replace(f":{postgres.port}/", ":1/")
        output += fleet.refused("hosts", "-vvv", "-e", json.dumps({"drover_store_url": wrong}))
        for secret in (postgres.password, urllib.parse.quote(postgres.password, safe="")):
            assert secret not in output
    clean(own_lab)
