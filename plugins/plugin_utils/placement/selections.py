# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selections as the lookup schedule gives them, or as a user writes them, checked before a claim."""

from __future__ import annotations

import uuid

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError

_AMOUNT_LIMIT = 2**31 - 1


def check(selections):
    """Refuse selections that cannot be claimed.

    :returns: the selections.
    :raises DroverError: a key is missing, a uuid is none or stands twice, an amount is no whole number
        from 0 to 2147483647.
    """
    seen = set()
    for number, selection in enumerate(selections, start=1):
        where = f"selections, item {number} ({selection.get('name') or 'no name'})"
        for key in ("name", "uuid", "host", "resources"):
            if not selection.get(key):
                raise DroverError(f"{where}: {key} is missing. Pass what the lookup drover.compute.schedule returned.")
        _check_uuid(where, selection["uuid"])
        if selection["uuid"] in seen:
            raise DroverError(f"{where}: uuid {selection['uuid']} stands twice. Each instance has its own.")
        seen.add(selection["uuid"])
        _check_resources(where, selection["resources"])
    return selections


def _check_uuid(where, text):
    try:
        uuid.UUID(text)
    except (ValueError, AttributeError, TypeError) as problem:
        raise DroverError(f"{where}: {text!r} is no uuid. Leave it out of the request to get a new one.") from problem


def _check_resources(where, resources):
    if not isinstance(resources, dict):
        raise DroverError(f"{where}: resources must be a mapping such as VCPU: 2, MEMORY_MB: 4096.")
    for name, amount in resources.items():
        if not isinstance(amount, int) or isinstance(amount, bool) or not 0 <= amount <= _AMOUNT_LIMIT:
            raise DroverError(f"{where}: {name} must be a whole number from 0 to {_AMOUNT_LIMIT}, not {amount!r}.")
