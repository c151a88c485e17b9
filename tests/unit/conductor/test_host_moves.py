# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The moves off one host: a move that its host refuses changes nothing."""

from __future__ import annotations

import os
import time
import types

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.host_moves import HostMoves
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.settings import MoveSettings
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

REFUSAL = "web cannot be moved to kvm2: another domain named 'web' exists on kvm2."


class Hand:
    """A host with the running guest web, which it refuses to move."""

    def __init__(self):
        self.calls = []

    def read(self, module, args):
        return {"names": [], "users": {}, "domains": []}

    def act(self, module, args):
        self.calls.append((module, args))
        report = {
            "uuid": uuid_of("web"),
            "ok": not args["start"][0].get("will_stop"),
            "message": REFUSAL,
            "source_state": "running",
            "destination_state": "absent",
        }
        return certainty.Answer(certainty.DONE, {"moves": [report]})


MOVE = {
    "uuid": uuid_of("web"),
    "name": "web",
    "from_host": "kvm1",
    "host": "kvm2",
    "node": "kvm2",
    "live": False,
}


def test_a_guest_is_not_shut_down_for_a_cold_move_that_is_refused(prepared_url):
    for name, guests in (("kvm1", [domain("web")]), ("kvm2", [])):
        fleets.discover(prepared_url, host(name, *guests), now=time.time())
    store = Store.open(prepared_url)
    hand = Hand()
    hosts = types.SimpleNamespace(
        names=lambda: ["kvm1", "kvm2"],
        variables=lambda name: {},
        hand=lambda name, limit=None: hand,
        at_once=lambda questions, limit: {
            name: question(hand) for name, question in questions.items()
        },
    )
    ports = Ports(store, hosts, Leasing(store, LeaseHolder(os.getpid()), str), str, time)
    settings = MoveSettings(MigrationLimits(per_source=1), {"copy_storage": "never"}, 60, 60)
    (outcome,) = HostMoves(ports, "kvm1", settings, hand).carry_out([MOVE])
    assert (outcome["status"], outcome["message"]) == ("failed", REFUSAL)
    assert {module for module, dummy in hand.calls} == {"_domain_migration"}
    assert all(args.get("check") for dummy, args in hand.calls)
    (order,) = hand.calls[-1][1]["start"]
    assert order["copy_storage"] == "never", "the check knows the options of the move"


def test_a_guest_that_is_shut_down_for_its_move_is_started_by_its_new_host(
    prepared_url, tmp_path, monkeypatch
):
    """A module of the old host refuses the libvirt of the new one, which is another machine."""
    fleet = hypervisors.Fleet(tmp_path, monkeypatch, ["kvm1", "kvm2"])
    fleet.hosts["kvm1"].define("web", uuid_of("web"), "running")
    for name, guests in (("kvm1", [domain("web")]), ("kvm2", [])):
        fleets.discover(prepared_url, host(name, *guests), now=time.time())
    settings = MoveSettings(MigrationLimits(per_source=1), {}, 60, 60)
    store = Store.open(prepared_url)
    leasing = Leasing(store, LeaseHolder(os.getpid()), str)
    ports = fleet.ports(store)._replace(leasing=leasing)
    (outcome,) = HostMoves(ports, "kvm1", settings).carry_out([MOVE])
    assert outcome["status"] == "completed", outcome
    assert fleet.where() == {"web": [("kvm2", "running")]}
