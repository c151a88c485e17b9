# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Nova has Placement cut away before any host filter (NOVA_SEMANTICS 1.4).

They hold whatever host filters are enabled, and for forced hosts too.

A zone that nobody has means nowhere here and not anywhere, as there is no API before us that would
have refused a misspelt zone. A request with an unknown tenant rule is not affected.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.host_filters.availability_zone_filter import (
    AvailabilityZoneFilter,
)

try:
    import numpy as np
except ImportError:
    np = None

#: Policy keys and defaults, by Nova's names.
OPTIONS = {
    "limit_tenants_to_placement_aggregate": False,
    "placement_aggregate_required_for_tenants": False,
    "enable_isolated_aggregate_filtering": False,
    "image_metadata_prefilter": False,
}
TENANT = "filter_tenant_id"
TRAIT = "trait:"


def pre_filters(states, spec, policy, enabled=()):
    """[(name, bool array)] of those that have something to say.

    :param enabled: names of the host filters that run, which make a pre-filter of the same rule
        needless.
    """
    found = []
    if "ComputeFilter" not in enabled and not states.enabled.all():
        found.append(("compute_status", states.enabled))
    if spec.availability_zone is not None and "AvailabilityZoneFilter" not in enabled:
        found.append(("availability_zone", AvailabilityZoneFilter(policy.options).passes(states, spec)))
    option = policy.options
    if option["limit_tenants_to_placement_aggregate"]:
        keep = _tenant(states, spec, option["placement_aggregate_required_for_tenants"])
        if keep is not None:
            found.append(("tenant", keep))
    if option["enable_isolated_aggregate_filtering"]:
        required = required_traits(spec)
        found.append(("isolated_aggregates", states.aggregates.each(lambda each: _asked_traits(each) <= required)))
    if option["image_metadata_prefilter"]:
        wanted = image_traits(spec.image_properties)
        if wanted:
            found.append(("image_traits", states.distinct("traits").each(lambda have: wanted <= set(have or ()))))
    return found


def needs(spec, policy):
    """The optional columns that the pre-filters of this policy read."""
    wanted = set()
    if policy.options["limit_tenants_to_placement_aggregate"] or policy.options["enable_isolated_aggregate_filtering"]:
        wanted.add("aggregates")
    if policy.options["image_metadata_prefilter"] and image_traits(spec.image_properties):
        wanted.add("traits")
    return wanted


def required_traits(spec):
    """Traits that the flavor (``trait:T=required``) and the image (``traits_required``) ask for."""
    traits = {
        key.split(":", 1)[1] for key, value in spec.extra_specs.items() if key.startswith(TRAIT) and value == "required"
    }
    listed = spec.image_properties.get("traits_required") or ()
    traits.update(part.strip() for part in listed.split(",")) if isinstance(listed, str) else traits.update(listed)
    traits.update(
        key.split(":", 1)[1]
        for key, value in spec.image_properties.items()
        if key.startswith(TRAIT) and value == "required"
    )
    return {trait for trait in traits if trait}


#: Image properties that name a bus or model, and the traits that hosts report for them.
IMAGE_TRAITS = {
    "hw_disk_bus": "COMPUTE_STORAGE_BUS_",
    "hw_cdrom_bus": "COMPUTE_STORAGE_BUS_",
    "hw_video_model": "COMPUTE_GRAPHICS_MODEL_",
    "hw_vif_model": "COMPUTE_NET_VIF_MODEL_",
    "hw_architecture": "HW_ARCH_",
    "hw_viommu_model": "COMPUTE_VIOMMU_MODEL_",
}


def image_traits(properties):
    """Traits that a host must report to run an image with these properties."""
    found = set()
    for key, start in IMAGE_TRAITS.items():
        value = properties.get(key)
        if value and not (key == "hw_viommu_model" and value == "auto"):
            found.add(start + str(value).upper().replace("-", "_"))
    return found


def _asked_traits(membership):
    return {
        key.split(":", 1)[1] for key, values in membership.raw.items() if key.startswith(TRAIT) and "required" in values
    }


def _tenant(states, spec, must):
    def mine(membership):
        return any(spec.project in values for key, values in membership.raw.items() if key.startswith(TENANT))

    keep = states.aggregates.each(mine)
    if not keep.any() and not must:
        return None
    return keep if len(keep) else np.zeros(states.size, dtype=bool)
