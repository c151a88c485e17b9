# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Selections as the lookup schedule gives them, or as a user writes them, checked before a
claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._common import validation
from .._common.errors import DroverError
from .._numa.request import HostRequest
from .._records.claims import Alternate, ClaimRequest, Resources
from . import allocations, server_groups

_LONGEST = 255


def check(selections: list[Any]) -> list[ClaimRequest]:
    """Refuse selections that cannot be claimed, and return the selections.

    :raises DroverError: a key is missing, a uuid is not valid or not unique, an amount is not a
        whole number from 0 to 2147483647, a text is none or too long, a server group has no policy.
    """
    seen: set[str] = set()
    for number, selection in enumerate(selections, start=1):
        if not isinstance(selection, dict):
            raise DroverError(f"selections, item {number}: must be a mapping, not {selection!r}.")
        where = f"selections, item {number} ({selection.get('name') or 'no name'})"
        for key in ("name", "uuid", "host", "resources"):
            if not selection.get(key):
                raise DroverError(
                    f"{where}: {key} is missing. Pass what the lookup drover.compute.schedule"
                    " returned."
                )
        validation.check_uuid(where, selection["uuid"])
        if selection["uuid"] in seen:
            raise DroverError(
                f"{where}: uuid {selection['uuid']} stands twice. Each instance has its own."
            )
        seen.add(selection["uuid"])
        check_resources(where, selection["resources"])
        check_texts(
            where,
            selection,
            (
                "name",
                "host",
                "node",
                "availability_zone",
                "project",
                "user",
                "image_name",
                "image_id",
                "image_format",
            ),
        )
        _check_allocations(where, selection, selection["resources"])
        check_alternates(where, selection.get("alternates", []), selection["resources"])
        _check_group(where, selection.get("server_group"))
        if selection.get("host_request") is not None:
            HostRequest.from_data(selection["host_request"], where)
    return selections


def check_alternates(
    where: str, alternates: Any, resources: Resources | None = None
) -> list[Alternate]:
    """Refuse alternates that name no host, and return the alternates.

    :param where: the beginning of the error.
    :param resources: the requested amounts; None if they are not known.
    """
    for number, place in enumerate(
        alternates if isinstance(alternates, list) else [alternates], start=1
    ):
        if not isinstance(place, dict) or not place.get("host"):
            raise DroverError(
                f"{where}, alternate {number}: must be a mapping with host, not {place!r}."
            )
        check_texts(f"{where}, alternate {number}", place, ("host", "node"))
        _check_allocations(f"{where}, alternate {number}", place, resources)
    return alternates


def _check_allocations(
    where: str, place: Mapping[str, object], resources: Resources | None
) -> None:
    """Refuse allocations that are malformed, or that do not add up to the requested amounts."""
    amounts_by_provider = place.get("allocations")
    _check_mappings(where, place.get("mappings"), amounts_by_provider)
    if amounts_by_provider is None:
        return
    if not isinstance(amounts_by_provider, dict):
        raise DroverError(
            f"{where}: allocations must be a mapping of provider uuids to amounts, not"
            f" {amounts_by_provider!r}."
        )
    for uuid_, amounts in amounts_by_provider.items():
        check_texts(f"{where}, allocations", {"provider": uuid_}, ("provider",))
        check_resources(f"{where}, allocations, {uuid_}", amounts)
    sums = allocations.total(amounts_by_provider)
    if amounts_by_provider and resources is not None:
        for name in sorted({*sums, *resources}):
            if sums.get(name, 0) != resources.get(name, 0):
                raise DroverError(
                    f"{where}: allocations have {sums.get(name, 0)} {name} in all, but resources"
                    f" has {resources.get(name, 0)}. Make them agree, or leave allocations out."
                )


def _check_mappings(where: str, mappings: Any, given: Any) -> None:
    """Refuse mappings of groups to providers that are malformed, or that name a provider without an
    allocation.
    """
    if mappings is None:
        return
    if not isinstance(mappings, dict) or not all(
        isinstance(uuids, list) and all(isinstance(each, str) for each in uuids)
        for uuids in mappings.values()
    ):
        raise DroverError(
            f"{where}: mappings must be a mapping of resource groups to lists of provider uuids,"
            f" not {mappings!r}."
        )
    for suffix, uuids in sorted(mappings.items(), key=str):
        for uuid in uuids:
            if not isinstance(given, dict) or uuid not in given:
                raise DroverError(
                    f"{where}: mappings name the provider {uuid} for {suffix}, but allocations do"
                    " not. Pass both as they were."
                )


def check_texts(where: str, mapping: Mapping[str, object], keys: Iterable[str]) -> None:
    """Refuse texts that no database takes."""
    for key in keys:
        value = mapping.get(key)
        if value is not None and not (
            isinstance(value, str) and len(value) <= _LONGEST and "\0" not in value
        ):
            shown = (
                f"{value[:40]!r}..."
                if isinstance(value, str) and len(value) > _LONGEST
                else repr(value)
            )
            raise DroverError(
                f"{where}: {key} must be a text of at most {_LONGEST} characters, not {shown}."
            )


def _check_group(where: str, group: Any) -> None:
    if isinstance(group, dict):
        if group.get("policy") not in server_groups.POLICIES:
            policies = " or ".join(server_groups.POLICIES)
            raise DroverError(
                f"{where}: policy of the server group must be {policies}, not"
                f" {group.get('policy')!r}."
            )
        group = group.get("name")
        if not group:
            raise DroverError(f"{where}: the server group has no name.")
    check_texts(where, {"server_group": group}, ("server_group",))


def check_resources(where: str, resources: Any) -> None:
    """Refuse amounts that are not a mapping of classes to whole numbers.

    :param where: the beginning of the error.
    """
    if not isinstance(resources, dict):
        raise DroverError(f"{where}: resources must be a mapping such as VCPU: 2, MEMORY_MB: 4096.")
    for name, amount in resources.items():
        validation.check_whole(f"{where}: {name}", amount)
