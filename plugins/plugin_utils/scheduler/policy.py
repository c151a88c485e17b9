# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How to decide: which host filters, which weighers with which multipliers, how many spares."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import PolicyError

#: In the order in which they run: what is cheap to say and to mend comes first.
DEFAULT_FILTERS = (
    "ComputeFilter",
    "AvailabilityZoneFilter",
    "CoreFilter",
    "RamFilter",
    "DiskFilter",
    "SameHostFilter",
    "DifferentHostFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_HOST_SUBSET_SIZE = 1


class Policy:
    """A checked policy.

    filters: host filter objects in the order in which they run.
    weighers: [(weigher object, multiplier)], by name.
    max_attempts: hosts to try per instance, the chosen one included (alternates = this - 1).
    host_subset_size: the chosen host is one of this many best.
    """

    def __init__(self, filters, weighers, max_attempts, host_subset_size, options):
        self.filters = filters
        self.weighers = weighers
        self.max_attempts = max_attempts
        self.host_subset_size = host_subset_size
        self.options = options

    @classmethod
    def from_mapping(cls, mapping=None):
        """A policy from the mapping that users write (``drover_scheduler``).

        :param mapping: None or a mapping with any of
            enabled_filters: names, in the order in which they run [DEFAULT_FILTERS];
            weighers: names, or a mapping of name to multiplier [all there are];
            max_attempts [3], host_subset_size [1]: whole numbers >= 1;
            and the options of host filters and weighers by their own names, such as
            ram_weight_multiplier [1.0] or default_availability_zone [nova].
        :raises PolicyError: naming the key, what was expected, and what exists.
        """
        mapping = {} if mapping is None else mapping
        if not isinstance(mapping, Mapping):
            raise PolicyError(f"The scheduler policy must be a mapping, not {type(mapping).__name__}.")
        filters, weighers = find("host_filters"), find("weighers")
        defaults = {}
        for component in list(filters.values()) + list(weighers.values()):
            defaults.update(component.options)
        known = ("enabled_filters", "weighers", "max_attempts", "host_subset_size")
        for key in mapping:
            if key not in known and key not in defaults:
                raise PolicyError(
                    f"The scheduler policy has the unknown key '{key}'; it knows: {', '.join(known + tuple(sorted(defaults)))}."
                )
        options = {
            key: _option(key, mapping[key], default) if mapping.get(key) is not None else default
            for key, default in defaults.items()
        }
        names = _names(mapping, "enabled_filters", filters, DEFAULT_FILTERS)
        chosen = mapping.get("weighers")
        multipliers = {}
        if isinstance(chosen, Mapping):
            for name, value in chosen.items():
                _known("weighers", name, weighers)
                multipliers[str(name)] = _option(f"weighers.{name}", value, 1.0)
                option = weighers[name].multiplier_option
                if mapping.get(option) is not None:
                    raise PolicyError(
                        f"The scheduler policy gives the multiplier of {name} twice,"
                        f" under 'weighers' and as '{option}'; keep one."
                    )
            weigher_names = list(multipliers)
        else:
            weigher_names = _names(mapping, "weighers", weighers, tuple(weighers))
        return cls(
            filters=[filters[name](options) for name in names],
            weighers=[
                (weighers[name](options), multipliers.get(name, options.get(weighers[name].multiplier_option, 1.0)))
                # By name, so that sums of floats come out the same whatever order the user wrote.
                for name in sorted(weigher_names)
            ],
            max_attempts=_count(mapping, "max_attempts", DEFAULT_MAX_ATTEMPTS),
            host_subset_size=_count(mapping, "host_subset_size", DEFAULT_HOST_SUBSET_SIZE),
            options=options,
        )

    def requiring(self, names):
        """This policy with host filters added that a caller cannot do without.

        :param names: names of host filters; those that are there already keep their place.
        """
        have = {each.name for each in self.filters}
        known = find("host_filters")
        added = [known[name](self.options) for name in names if name not in have]
        return Policy(self.filters + added, self.weighers, self.max_attempts, self.host_subset_size, self.options)


def _known(key, name, found):
    if not isinstance(name, str) or name not in found:
        raise PolicyError(
            f"The scheduler policy names '{name}' under '{key}', which does not exist; there are: {', '.join(found)}."
        )


def _names(mapping, key, found, default):
    value = mapping.get(key)
    if value is None:
        return list(default)
    if isinstance(value, (str, Mapping)) or not isinstance(value, (list, tuple)):
        raise PolicyError(f"The scheduler policy's '{key}' must be a list of names out of: {', '.join(found)}.")
    names = []
    for name in value:
        _known(key, name, found)
        if name in names:
            raise PolicyError(f"The scheduler policy names {name} twice under '{key}'; remove one.")
        names.append(str(name))
    return names


def _option(key, value, default):
    if isinstance(default, float):
        try:
            if isinstance(value, bool):
                raise ValueError
            value = float(value)
        except (TypeError, ValueError):
            value = math.nan
        if not math.isfinite(value):
            raise PolicyError(f"The scheduler policy's '{key}' must be a number, such as 1.0 or -0.5.")
        return value
    if not isinstance(value, str) or not value:
        raise PolicyError(f"The scheduler policy's '{key}' must be text, such as '{default}'.")
    return str(value)


def _count(mapping, key, default):
    value = mapping.get(key)
    if value is None:
        return default
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PolicyError(f"The scheduler policy's '{key}' must be a whole number, 1 or more, not {value!r}.")
    return int(value)
