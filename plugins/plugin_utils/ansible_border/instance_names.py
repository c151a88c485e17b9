# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What instances are called in an inventory. Whoever names a domain must not thereby be a hypervisor, or this machine."""

from __future__ import annotations

import ipaddress
import itertools

# Ends of the parts of a uuid.
PARTS = (8, 13, 18, 23, 36)


def choose(instances, taken):
    """Give each instance a name that nothing else has.

    :param instances: dicts with name and uuid.
    :param taken: names that no instance may have.
    :returns: a dict: names (dict name -> instance, in the order of the instances), changed (texts such as "kvm2 is
        kvm2-1b4e28ba", sorted, of those whose name is taken or cannot be used).
    """
    count = {}
    for each in instances:
        count[each["name"]] = count.get(each["name"], 0) + 1
    given, changed = {}, []
    # Those that keep their names first, then by uuid: the order of the instances does not matter.
    for each in sorted(instances, key=lambda each: (not _keeps(each, count, taken), each["uuid"])):
        name, uuid = each["name"], each["uuid"]
        if _keeps(each, count, taken):
            given[name] = each
            continue
        found = next(form for form in _forms(name, uuid, count[name] > 1) if form not in taken and form not in given)
        given[found] = each
        if name in taken or not _is_usable(name):
            changed.append(f"{name} is {found}")
    names = {each["uuid"]: name for name, each in given.items()}
    return {"names": {names[each["uuid"]]: each for each in instances}, "changed": sorted(changed)}


def is_address(addresses):
    """Whether the first of what a host says are addresses is one: SSH would take it for whatever it looks like."""
    try:
        return bool(addresses) and ipaddress.ip_address(addresses[0]) is not None
    except ValueError:
        return False


def _keeps(instance, count, taken):
    name = instance["name"]
    return count[name] == 1 and name not in taken and _is_usable(name)


def _is_usable(name):
    """Whether SSH takes the name for that of a host, where no address is known, and not for an option."""
    return bool(name) and not name.startswith("-")


def _forms(name, uuid, several):
    """Names for an instance, the best first."""
    name = name if _is_usable(name) else f"instance{name}"
    for end in PARTS[-1:] if several else PARTS:
        yield f"{name}-{uuid[:end]}"
    for number in itertools.count(2):
        yield f"{name}-{uuid}-{number}"
