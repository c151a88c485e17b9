# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The event source drover.compute.fleet of Event-Driven Ansible."""

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
short_description: Watch the hypervisors of a fleet and report events of hosts and instances
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Keeps one connection to the libvirt of each host, to read only, and yields an event when
    something happens without drover.compute. Nothing runs on hypervisors but libvirt. Nothing is
    changed, neither there nor in the store.
  - Each event is a dict with C(type), C(name), C(uuid) (of the instance, or null), C(host),
    C(since) (time in UTC) and C(sentence), which says what happened, where, and what to do. An
    event is reported once, and again only when it changes.
  - C(host_silent), neither libvirt nor SSH answers; C(fleet_silent), half of the fleet and more
    than one host is silent, and nothing should be done (C(hosts) has them); C(libvirt_dead_alone),
    SSH answers and libvirt does not; C(host_back); C(host_flapping), lost three times within
    O(flap_seconds).
  - C(instance_crashed), with C(crashes_last_hour); C(instance_paused_io_error);
    C(instance_stopped_outside), with C(reason); C(migrated_outside), with C(source) and
    C(destination); C(instance_changed_outside), it was defined, undefined or started. The store
    does not know these three and C(host_back) yet. The hosts in C(changed_hosts) show the changes.
  - C(capacity_below_one_loss), C(audit_finding) and C(needs_reboot), by O(audit_seconds).
  - With O(store_url), there is no event about a host that is in maintenance or drained, about an
    empty host that was switched off or evacuated, and about the effects of a run of drover.compute
    on an instance.
  - An event is no proof. P(drover.compute.evacuate#role) finds out by itself if a host is off.
options:
  hosts:
    description: The hosts, as a list of names or a mapping of names to libvirt URIs. By default all
      hosts of the store.
    type: raw
  store_url:
    description: The store, as in the variable C(drover_store_url).
    type: str
  uri:
    description:
      - The libvirt URI of a host that has none in O(hosts). V({host}) is its name, V({address}) its
        migration address in the store, or else its name.
      - Libvirt's options C(command) and C(keyfile) also count for the probe of a host over SSH.
    type: str
    default: qemu+ssh://root@{address}/system
  silent_seconds:
    description: The seconds that a host must not answer before an event reports it.
    type: float
    default: 20
  flap_seconds:
    description: A host that is lost three times within this time comes and goes. It is one event,
      until it was steady for as long.
    type: float
    default: 300
  poll_seconds:
    description: The pace of libvirt's keepalives; a connection is lost when three of them have
      passed. Drivers without events are read at this pace.
    type: float
    default: 5
  audit_seconds:
    description: The pace at which the capacity and the consistency of the store are checked. Not at
      all with 0. Needs O(store_url).
    type: float
    default: 0
"""

EXAMPLES = r"""
- name: Say what happens
  hosts: all,localhost
  sources:
    - name: Watch the fleet
      drover.compute.fleet:
        store_url: "{{ drover_store_url }}"
        audit_seconds: 600
  rules:
    - name: Say it
      condition: event.sentence is defined
      action:
        debug:
          msg: "{{ event.sentence }}"

- name: Watch hosts that no store knows
  hosts: all,localhost
  sources:
    - name: Watch two hosts
      drover.compute.fleet:
        hosts:
          kvm1: qemu+ssh://root@kvm1.example.com/system
          kvm2: qemu+tls://kvm2.example.com/system
  rules:
    - name: Say what crashed
      condition: event.type == "instance_crashed"
      action:
        debug:
          msg: "{{ event.sentence }}"
"""

import asyncio
import pathlib
import sys
from typing import Any


def _make_importable() -> None:
    """Let Python find the collection that this file belongs to; ansible-rulebook does not load
    collections.
    """
    for folder in pathlib.Path(__file__).absolute().parents:
        if folder.name == "ansible_collections" and str(folder.parent) not in sys.path:
            sys.path.insert(0, str(folder.parent))


async def main(queue: asyncio.Queue[dict[str, Any]], args: dict[str, Any]) -> None:
    """Put the events of the fleet into the queue."""
    _make_importable()
    from ansible_collections.drover.compute.plugins.plugin_utils._events.options import WatchOptions
    from ansible_collections.drover.compute.plugins.plugin_utils._events.watch import FleetWatch

    async for event in FleetWatch(WatchOptions.of_args(args)).events():
        await queue.put(event)
