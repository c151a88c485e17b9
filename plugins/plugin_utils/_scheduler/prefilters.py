# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that Placement applies in Nova before any host filter (N1.4).

They apply with all enabled host filters, and to forced hosts too. Traits that the flavor or the
image requires or forbids (N1.3) belong here as well.

An unknown zone means "nowhere" here and not "anywhere": no API before this code refuses a misspelt
zone. A request with an unknown tenant rule is not affected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

try:
    import os_traits
except ImportError:
    os_traits = None

from .._common.arrays import BoolArray
from .._common.errors import require
from .._numa.specs import required_by_image
from .aggregates import Membership
from .host_filters.availability_zone_filter import AvailabilityZoneFilter
from .host_states import HostStates
from .request_spec import RequestSpec

#: Policy keys and defaults, by Nova's names.
OPTIONS = {
    "limit_tenants_to_placement_aggregate": False,
    "placement_aggregate_required_for_tenants": False,
    "enable_isolated_aggregate_filtering": False,
    "image_metadata_prefilter": False,
    "query_placement_for_image_type_support": False,
}
TENANT = "filter_tenant_id"
TRAIT = "trait:"
IMAGE_TYPE = "COMPUTE_IMAGE_TYPE_"


def pre_filters(
    states: HostStates, spec: RequestSpec, options: Mapping[str, Any], enabled: Collection[str] = ()
) -> list[tuple[str, BoolArray]]:
    """Return [(name, bool array)] of the pre-filters that apply to a request.

    :param options: the options of the policy.
    :param enabled: names of the host filters that run; a pre-filter with the rule of one of them is
        left out.
    """
    named_masks = []
    if "ComputeFilter" not in enabled and not states.enabled.all():
        named_masks.append(("compute_status", states.enabled))
    if spec.availability_zone is not None and "AvailabilityZoneFilter" not in enabled:
        named_masks.append(
            ("availability_zone", AvailabilityZoneFilter(options).passes(states, spec))
        )
    if options["limit_tenants_to_placement_aggregate"]:
        keep = _tenant(states, spec, options["placement_aggregate_required_for_tenants"])
        if keep is not None:
            named_masks.append(("tenant", keep))
    if options["enable_isolated_aggregate_filtering"]:
        required = required_traits(spec)
        named_masks.append(
            (
                "isolated_aggregates",
                states.aggregates.each(lambda each: _asked_traits(each) <= required),
            )
        )
    for name, wanted, unwanted in _traits(spec, options):
        named_masks.append(
            (name, states.categorical("traits").each(partial(_has_traits, wanted, unwanted)))
        )
    return named_masks


def needs(spec: RequestSpec, options: Mapping[str, Any]) -> set[str]:
    """Return the optional columns that the pre-filters read with these options of a policy."""
    columns = set()
    if (
        options["limit_tenants_to_placement_aggregate"]
        or options["enable_isolated_aggregate_filtering"]
    ):
        columns.add("aggregates")
    if _traits(spec, options):
        columns.add("traits")
    return columns


def _has_traits(wanted: set[str], unwanted: set[str], have: Iterable[str] | None) -> bool:
    """Return True if a host with the traits `have` (list of names or None) has all wanted and no
    unwanted ones (two sets).
    """
    return wanted <= set(have or ()) and not unwanted & set(have or ())


def _traits(
    spec: RequestSpec, options: Mapping[str, object]
) -> list[tuple[str, set[str], set[str]]]:
    """Return [(name of the pre-filter, traits that a host must have, traits that it must not
    have)].
    """
    trait_sets = []
    if spec.extra_specs or spec.image_properties or spec.required_traits or spec.forbidden_traits:
        trait_sets.append(("required_traits", required_traits(spec), forbidden_traits(spec)))
    if options["image_metadata_prefilter"]:
        trait_sets.append(("image_traits", image_traits(spec.image_properties), set()))
    if (
        options["query_placement_for_image_type_support"]
        and spec.image is not None
        and spec.image.disk_format
    ):
        trait_sets.append(("image_type", image_type_traits(spec.image.disk_format), set()))
    return [each for each in trait_sets if each[1] or each[2]]


def traits_asked(name: str, spec: RequestSpec, options: Mapping[str, object]) -> str | None:
    """Return in words the traits that a pre-filter of this name requires or forbids; None if there
    are none.
    """
    for found, wanted, unwanted in _traits(spec, options):
        if found == name:
            return ", ".join([*sorted(wanted), *(f"not {trait}" for trait in sorted(unwanted))])
    return None


def forbidden_traits(spec: RequestSpec) -> set[str]:
    """Return the traits that the flavor forbids (``trait:T=forbidden``), or its thread policy
    (N11.2).
    """
    traits = {
        key.split(":", 1)[1]
        for key, value in spec.extra_specs.items()
        if key.startswith(TRAIT) and value == "forbidden"
    }
    return traits | spec.forbidden_traits


def required_traits(spec: RequestSpec) -> set[str]:
    """Return the traits that the flavor (``trait:T=required``), the image (``traits_required``) and
    the hardware of the guest require, or their policies (N11.2, N12.2).
    """
    traits = {
        key.split(":", 1)[1]
        for key, value in spec.extra_specs.items()
        if key.startswith(TRAIT) and value == "required"
    }
    traits.update(required_by_image(spec.image_properties))
    return {trait for trait in traits if trait} | hardware_traits(spec) | spec.required_traits


def hardware_traits(spec: RequestSpec) -> set[str]:
    """Return the traits that the TPM and the Secure Boot of flavor and image require (N1.3)."""

    def asked(flavor_name: str, image_name: str) -> str:
        return str(spec.extra_specs.get(flavor_name) or spec.image_properties.get(image_name) or "")

    traits = set()
    version = asked("hw:tpm_version", "hw_tpm_version")
    if version:
        model = asked("hw:tpm_model", "hw_tpm_model")
        traits = {
            f"COMPUTE_SECURITY_TPM_{version.replace('.', '_')}",
            f"COMPUTE_SECURITY_TPM_{'CRB' if model == 'tpm-crb' else 'TIS'}",
        }
    if asked("os:secure_boot", "os_secure_boot") == "required":
        traits.add("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    return traits


#: Image properties that name a bus or model, and the traits that hosts report for them.
IMAGE_TRAITS = {
    "hw_disk_bus": "COMPUTE_STORAGE_BUS_",
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS_",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL_",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL_",
    "hw_architecture": "HW_ARCH_",
    "hw_viommu_model": "COMPUTE_VIOMMU_MODEL_",
}


def image_traits(properties: Mapping[str, object]) -> set[str]:
    """Return the traits that a host must report to run an image with these properties."""
    traits = set()
    for key, start in IMAGE_TRAITS.items():
        value = properties.get(key)
        if value and not (key == "hw_viommu_model" and value == "auto"):
            traits.add(start + str(value).upper().replace("-", "_"))
    return traits


def image_type_traits(disk_format: str) -> set[str]:
    """Return the trait of hosts that support images of a format; none for a format without a trait,
    which no host could have.
    """
    require("os-traits", os_traits)
    return {IMAGE_TYPE + disk_format.upper()} & set(os_traits.get_traits(IMAGE_TYPE))


def _asked_traits(membership: Membership) -> set[str]:
    return {
        key.split(":", 1)[1]
        for key, values in membership.raw.items()
        if key.startswith(TRAIT) and "required" in values
    }


def _tenant(states: HostStates, spec: RequestSpec, must: bool) -> BoolArray | None:
    """Return the hosts of the project's aggregates, None if it has no aggregates and needs none.

    An aggregate without hosts counts too: then the project has no host.
    """

    def is_mine(metadata: Mapping[str, Any]) -> bool:
        return any(
            key.startswith(TENANT) and str(value) == spec.project for key, value in metadata.items()
        )

    mine = {each["name"] for each in states.aggregates.all if is_mine(each.get("metadata") or {})}
    if not mine and not must:
        return None
    return states.aggregates.each(lambda membership: not mine.isdisjoint(membership.names))
