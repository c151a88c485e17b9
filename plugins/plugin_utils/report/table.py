# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of hosts and of instances."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.report.columns import align
from ansible_collections.drover.compute.plugins.plugin_utils.report.words import natural

#: Below this much memory (MiB) a host's is shown in MiB, from here on in GiB.
SHOWN_IN_GIB = 16 * 1024

HOST_HEADINGS = ("HOST", "STATE", "ZONE", "VCPU", "RAM", "DISK", "INSTANCES", "REASON")
HOST_NUMBERS = ("VCPU", "RAM", "DISK", "INSTANCES")
INSTANCE_HEADINGS = ("INSTANCE", "STATE", "HOST", "VCPU", "MiB", "GiB", "GROUP", "PROJECT")
INSTANCE_NUMBERS = ("VCPU", "MiB", "GiB")


def hosts_table(hosts):
    """Hosts by name, one line each: what is allocated and what may be.

    :param hosts: dicts as the store's hosts.listing returns them: host, state (up or down), status
        (enabled or disabled), maintenance, disabled_reason, down_reason, zones, instances, and of
        vcpus, memory_mb (MiB) and disk_gb (GiB) NAME_used and NAME_capacity, which is
        (total - reserved) x ratio; disk_pool, with which the disk is marked as shared. What is missing is
        shown as ``-``.
    :returns: a list of lines.
    """
    rows = [_host(host) for host in sorted(hosts, key=lambda each: natural(each["host"]))]
    return align(HOST_HEADINGS, rows, right=HOST_NUMBERS)


def instances_table(instances):
    """Instances, one line each.

    :param instances: dicts as the store's instances.listing returns them: name, state, host, node,
        vcpus, memory_mb (MiB), disk_gb (GiB), server_group, project.
    :returns: a list of lines.
    """
    keys = ("vcpus", "memory_mb", "disk_gb", "server_group", "project")
    rows = [[each.get("name"), each.get("state"), place(each), *(each.get(key) for key in keys)] for each in instances]
    return align(INSTANCE_HEADINGS, rows, right=INSTANCE_NUMBERS)


def place(row):
    """Where something is: the host, and the compute node where its name says more."""
    host, node = row.get("host"), row.get("node")
    return f"{host}/{node}" if host and node and host != node else host


def state(host):
    """``up``, ``down``, ``up, disabled``, ``up, maintenance``..."""
    words = [host.get("state") or "up"]
    if host.get("maintenance"):
        words.append("maintenance")
    elif host.get("status") == "disabled":
        words.append("disabled")
    return ", ".join(words)


def _host(host):
    unit, divisor = ("GiB", 1024) if (host.get("memory_mb_capacity") or 0) >= SHOWN_IN_GIB else ("MiB", 1)
    reasons = [host.get(key) for key in ("disabled_reason", "down_reason") if host.get(key)]
    return [
        host["host"],
        state(host),
        host.get("zones"),
        _share(host, "vcpus"),
        _share(host, "memory_mb", divisor, unit),
        _share(host, "disk_gb", 1, "GiB shared" if host.get("disk_pool") else "GiB"),
        host.get("instances"),
        "; ".join(reasons),
    ]


def _share(host, name, divisor=1, unit=""):
    """``3/8``, ``1.5/64 GiB``."""
    capacity = host.get(f"{name}_capacity")
    if capacity is None:
        return None
    used = host.get(f"{name}_used") or 0
    return f"{_short(used / divisor)}/{_short(capacity / divisor)} {unit}".rstrip()


def _short(value):
    return f"{value:.1f}".removesuffix(".0")
