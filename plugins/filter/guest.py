# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter guest: the type of domain and the CPU that an instance gets on its host."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils.definitions import guest as hardware
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain


def guest(claim, domain_type=None, cpu=None):
    """What a claimed instance gets.

    :param claim: an item of place_claims: name, host, domain_type (the best that the host offers) and guest (what the
        definition wants).
    :param domain_type, cpu: the variables drover_domain_type and drover_cpu of the host.
    :returns: a dict: domain_type, cpu (None, or a dict of mode and model).
    :raises AnsibleFilterError: one of them is nonsense, or the host cannot do it.
    """
    claim, of_host = to_plain(claim), {"domain_type": to_plain(domain_type), "cpu": to_plain(cpu)}
    where = f"Instance {claim.get('name')} on {claim.get('host')}"
    try:
        return hardware.hardware(claim.get("domain_type"), claim.get("guest") or {}, of_host, where)
    except DroverError as problem:
        raise AnsibleFilterError(str(problem)) from None


class FilterModule:
    """Ansible filter."""

    def filters(self):
        return {"guest": guest}
