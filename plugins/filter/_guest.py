# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter guest: the domain type and CPU of an instance on its host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils._definitions import guest as hardware
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._plain import to_plain


def guest(claim: Any, domain_type: Any = None, cpu: Any = None) -> dict[str, Any]:
    """Choose the domain type and CPU of a claimed instance.

    :param claim: an item of place_claims: name, host, domain_type (the best of the host) and guest (as in the definition).
    :param domain_type, cpu: the variables drover_domain_type and drover_cpu of the host.
    :returns: domain_type, and cpu (None, or mode and model).
    :raises AnsibleFilterError: a value is not valid, or the host does not support it.
    """
    claim, of_host = to_plain(claim), {"domain_type": to_plain(domain_type), "cpu": to_plain(cpu)}
    where = f"Instance {claim.get('name')} on {claim.get('host')}"
    try:
        return hardware.hardware(claim.get("domain_type"), claim.get("guest") or {}, of_host, where)
    except DroverError as problem:
        raise AnsibleFilterError(str(problem)) from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_guest": guest}
