# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scheduler policy: host filters, weighers with multipliers, and the number of alternates."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from .._common import validation
from .._common.errors import InvalidSpecs
from .._numa.device_requests import Alias, read_aliases
from . import prefilters
from .components import Catalogue, HostFilter, Weigher
from .errors import PolicyError, RequestError, SchedulerError
from .request_spec import RequestSpec

#: The order in which they run: filters with clear messages and easy remedies come first.
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
DEFAULT_DRIVER = "filter_scheduler"
DRIVERS = ("filter_scheduler", "chance", "simple", "least_cost")
#: Options of the drivers, by Nova's names.
DRIVER_OPTIONS = {
    "max_cores": 16,
    "skip_isolated_core_check": True,
    "least_cost_functions": {"compute_fill_first": -1.0},
}
#: Options of requests: aliases of PCI devices (N12.2), and whether these are allocated in Placement
#: (N12.7).
REQUEST_OPTIONS: dict[str, object] = {"pci_alias": [], "pci_in_placement": False}
#: Options of numbers by name that may name one twice; its numbers are added up then, as in Nova
#: (N3.2).
ADDED_UP = ("metrics_weight_setting",)
#: Cost functions of the driver least_cost.
COST_FUNCTIONS = ("compute_fill_first", "noop")
DEFAULT_MAX_ATTEMPTS = 3
DEFAULT_HOST_SUBSET_SIZE = 1


class Policy:
    """A checked policy.

    filters: host filter objects in the order in which they run.
    weighers: [(weigher object, multiplier)], by name.
    max_attempts: hosts to try per instance, the chosen one included (alternates = this - 1).
    host_subset_size: the chosen host is one of this many best.
    shuffle: the chosen host is one of the hosts with the best weight.
    driver: name of the driver (drivers.py).
    options: {key: value} of all options of host filters, weighers, pre-filters and drivers.
    """

    def __init__(
        self,
        filters: list[HostFilter],
        weighers: list[tuple[Weigher, float]],
        options: dict[str, Any],
        components: dict[str, Catalogue],
        max_attempts: int = 3,
        host_subset_size: int = 1,
        shuffle: bool = False,
        driver: str = DEFAULT_DRIVER,
        mapping: Mapping[str, object] | None = None,
        folders: Sequence[str] = (),
    ) -> None:
        self.filters = filters
        self.weighers = weighers
        self.options = options
        self.max_attempts = max_attempts
        self.host_subset_size = host_subset_size
        self.shuffle = shuffle
        self.driver = driver
        self._components = components
        self._mapping = mapping or {}
        self._folders = folders
        self._of: dict[str, Policy] = {}
        #: The aliases of PCI devices.
        self.aliases: dict[str, Alias] = _aliases(options)

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, Any] | None = None, folders: Sequence[str] = ()
    ) -> Policy:
        """Make a policy of the mapping that users write (``drover_scheduler``).

        :param mapping: None or a mapping with any of
            enabled_filters: names, in the order in which they run [DEFAULT_FILTERS];
            weighers: names, or a mapping of name to multiplier [all there are];
            driver [filter_scheduler];
            max_attempts [3], host_subset_size [1]: whole numbers >= 1;
            shuffle_best_same_weighed_hosts [false];
            and the options of host filters, weighers, pre-filters and drivers by their own names,
            such as ram_weight_multiplier [1.0] or default_availability_zone [nova].
        :param folders: folders (a playbook's) with ``host_filters`` and ``weighers`` folders of the
            user.
        :raises PolicyError: a key or value is wrong; the message names the key, the expected value,
            and the existing names.
        """
        mapping = {} if mapping is None else mapping
        if not isinstance(mapping, Mapping):
            raise PolicyError(
                f"The scheduler policy must be a mapping, not {type(mapping).__name__}."
            )
        components = {kind: Catalogue(kind, folders) for kind in ("host_filters", "weighers")}
        filters, weighers = components["host_filters"], components["weighers"]
        names = _read_names(mapping, "enabled_filters", filters, DEFAULT_FILTERS)
        chosen = mapping.get("weighers")
        if isinstance(chosen, Mapping):
            for name in chosen:
                _check_name("weighers", name, weighers)
            weigher_names = [str(name) for name in chosen]
        else:
            weigher_names = _read_names(mapping, "weighers", weighers, tuple(weighers.own))
        defaults: dict[str, Any] = dict(prefilters.OPTIONS)
        defaults.update(DRIVER_OPTIONS)
        defaults.update(REQUEST_OPTIONS)
        for component in [*filters.own.values(), *weighers.own.values()]:
            defaults.update(component.options)
        for component in [*map(filters.get, names), *map(weighers.get, weigher_names)]:
            defaults.update(component.options)
        option_names = (
            "enabled_filters",
            "weighers",
            "driver",
            "max_attempts",
            "host_subset_size",
            "shuffle_best_same_weighed_hosts",
        )
        for key in mapping:
            validation.check_keys(
                "The scheduler policy",
                [key],
                (*option_names, *sorted(defaults)),
                refuse=_refusal(key),
            )
        options = {
            key: _option(key, mapping[key], default) if mapping.get(key) is not None else default
            for key, default in defaults.items()
        }
        multipliers = _multipliers(mapping, chosen, weigher_names, weighers, options)
        driver = mapping.get("driver") or DEFAULT_DRIVER
        if driver not in DRIVERS:
            raise PolicyError(
                f"The scheduler policy names the driver {driver!r}, which does not"
                f" exist{validation.did_you_mean(str(driver), DRIVERS)}; there are:"
                f" {', '.join(DRIVERS)}.",
                ("driver",),
            )
        for name in options["least_cost_functions"]:
            if name not in COST_FUNCTIONS:
                raise PolicyError(
                    f"The scheduler policy names '{name}' under 'least_cost_functions', which does"
                    f" not exist{validation.did_you_mean(str(name), COST_FUNCTIONS)}; there are:"
                    f" {', '.join(COST_FUNCTIONS)}.",
                    ("least_cost_functions", name),
                )
        return cls(
            filters=[filters.get(name)(options) for name in names],
            # They are sorted by name, so that sums of floats do not depend on the order in the
            # policy.
            weighers=[
                (weighers.get(name)(options, multipliers[name]), multipliers[name])
                for name in sorted(weigher_names)
            ],
            options=options,
            components=components,
            max_attempts=_read_count(mapping, "max_attempts", DEFAULT_MAX_ATTEMPTS),
            host_subset_size=_read_count(mapping, "host_subset_size", DEFAULT_HOST_SUBSET_SIZE),
            shuffle=_option(
                "shuffle_best_same_weighed_hosts",
                mapping.get("shuffle_best_same_weighed_hosts", False),
                False,
            ),
            driver=driver,
            mapping=mapping,
            folders=folders,
        )

    def of(self, spec: RequestSpec) -> Policy:
        """Return the policy for one request: this one, overridden by the policy keys of the
        request.

        :raises RequestError: these keys are malformed.
        """
        if spec.scheduler is None:
            return self
        key = json.dumps(spec.scheduler, sort_keys=True, default=str)
        if key not in self._of:
            try:
                self._of[key] = self.over(spec.scheduler)
            except PolicyError as problem:
                raise RequestError(f"Request '{spec.name}', under 'scheduler': {problem}") from None
        return self._of[key]

    def over(self, mapping: Mapping[str, Any]) -> Policy:
        """Return this policy, overridden by a mapping in the form of ``drover_scheduler``.

        :raises PolicyError: a key is malformed; the message names it.
        """
        return self.from_mapping(merged(self._mapping, mapping), self._folders)

    def requiring(self, names: Iterable[str]) -> Policy:
        """Return this policy with further host filters that a caller requires.

        :param names: names of host filters; filters of the policy keep their place.
        """
        have = {each.name for each in self.filters}
        host_filters = self._components["host_filters"]
        policy = copy.copy(self)
        policy.filters = self.filters + [
            host_filters.get(name)(self.options) for name in names if name not in have
        ]
        return policy

    def bare(self, filters: Iterable[HostFilter]) -> Policy:
        """Return this policy with other host filters (objects) and no weighers."""
        policy = copy.copy(self)
        policy.filters, policy.weighers = list(filters), []
        return policy

    def needs(self, specs: Iterable[RequestSpec]) -> set[str]:
        """Return the optional columns that host filters, weighers and pre-filters read for these
        requests.
        """
        columns: set[str] = set()
        before = None
        for spec in specs:
            if spec.is_equivalent(before):
                continue
            before = spec
            policy = self.of(spec)
            for component in [
                *policy.filters,
                *(weigher for weigher, _multiplier in policy.weighers),
            ]:
                columns.update(component.needs(spec))
            columns |= prefilters.needs(spec, policy.options)
            if not spec.host_request.is_empty:
                columns.add("numa")
        return columns


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy mapping that is overridden by another one.

    Two settings of the multiplier of one weigher in different forms (under ``weighers`` and by the
    weigher's own option) do not clash: the setting of the second mapping counts.
    """
    weighers = Catalogue("weighers").own
    option = {name: weigher.multiplier_option for name, weigher in weighers.items()}
    base = dict(base)
    if isinstance(over.get("weighers"), Mapping):
        for name in over["weighers"]:
            base.pop(option.get(name, ""), None)
    elif over.get("weighers") is None and isinstance(base.get("weighers"), Mapping):
        base["weighers"] = {
            name: over[option[name]] if over.get(option.get(name, "")) is not None else multiplier
            for name, multiplier in base["weighers"].items()
        }
        over = {
            key: value
            for key, value in over.items()
            if key not in map(option.get, base["weighers"])
        }
    return {**base, **over}


def _multipliers(
    mapping: Mapping[str, Any],
    chosen: Any,
    names: Sequence[str],
    weighers: Catalogue,
    options: Mapping[str, Any],
) -> dict[str, float]:
    multipliers = {}
    for name in names:
        weigher = weighers.get(name)
        option = weigher.multiplier_option
        key = option
        value = options.get(option, 1.0)
        if isinstance(chosen, Mapping):
            key = f"weighers.{name}"
            value = _option(key, chosen[name], 1.0)
            if mapping.get(option) is not None:
                raise PolicyError(
                    f"The scheduler policy gives the multiplier of {name} twice, under 'weighers'"
                    f" and as '{option}'; keep one.",
                    (option,),
                )
        if weigher.least_multiplier is not None and value < weigher.least_multiplier:
            raise PolicyError(
                f"The scheduler policy's '{key}' is {value:g}; it may not be negative.",
                tuple(key.split(".")),
            )
        multipliers[name] = value
    return multipliers


def _check_name(key: str, name: Any, found: Catalogue) -> None:
    try:
        if isinstance(name, str) and found.get(name) is not None:
            return
    except SchedulerError as problem:
        raise PolicyError(
            f"The scheduler policy names '{name}' under '{key}': {problem}", (key,)
        ) from None
    raise PolicyError(
        f"The scheduler policy names '{name}' under '{key}', which does not"
        f" exist{validation.did_you_mean(str(name), found.names)}; there are:"
        f" {', '.join(found.names)}.",
        (key, name),
    )


def _read_names(
    mapping: Mapping[str, Any], key: str, found: Catalogue, default: Sequence[str]
) -> list[str]:
    value = mapping.get(key)
    if value is None:
        return list(default)
    if isinstance(value, (str, Mapping)) or not isinstance(value, (list, tuple)):
        raise PolicyError(
            f"The scheduler policy's '{key}' must be a list of names out of:"
            f" {', '.join(found.names)}.",
            (key,),
        )
    names = []
    for place, name in enumerate(value):
        try:
            _check_name(key, name, found)
        except PolicyError as problem:
            raise PolicyError(str(problem), (key, place)) from None
        if name in names:
            raise PolicyError(
                f"The scheduler policy names {name} twice under '{key}'; remove one.", (key, place)
            )
        names.append(str(name))
    return names


def _aliases(options: Mapping[str, Any]) -> dict[str, Alias]:
    try:
        return read_aliases(options["pci_alias"], options["pci_in_placement"])
    except InvalidSpecs as problem:
        raise PolicyError(
            f"The scheduler policy's 'pci_alias': {problem}", ("pci_alias",)
        ) from None


def _option(key: str, value: Any, default: Any) -> Any:
    """Return a value of the type of its default: bool, whole number, number, text, list of text (a
    tuple), list of mappings, {text: number}.
    """

    def refuse(expected: str) -> NoReturn:
        raise PolicyError(
            f"The scheduler policy's '{key}' must be {expected}, not {value!r}.",
            tuple(key.split(".")),
        )

    if isinstance(default, bool):
        if isinstance(value, str) and value.lower() in ("true", "yes", "false", "no"):
            value = value.lower() in ("true", "yes")
        if not isinstance(value, bool):
            refuse("true or false")
        return value
    if isinstance(default, int):
        return validation.read_whole(
            f"The scheduler policy's '{key}'", value, 0, None, _refusal(*key.split("."))
        )
    if isinstance(default, float):
        number = _number(value)
        if number is None:
            refuse("a number, such as 1.0 or -0.5")
        return number
    if isinstance(default, tuple):
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, (list, tuple)) or not all(
            isinstance(each, str) for each in values
        ):
            refuse("a name or a list of names")
        return tuple(str(each) for each in values)
    if isinstance(default, list):
        if not isinstance(value, (list, tuple)) or not all(
            isinstance(each, Mapping) for each in value
        ):
            refuse("a list of mappings")
        return list(value)
    if isinstance(default, Mapping):
        return _numbers(value, refuse, key in ADDED_UP)
    if not isinstance(value, str) or (default and not value):
        refuse(f"text, such as '{default}'" if default else "text")
    return str(value)


def _numbers(
    value: Any, refuse: Callable[[str], NoReturn], are_added_up: bool = False
) -> dict[str, float]:
    """Return {name: number} from a mapping, or from Nova's form: name=number, in a list or with
    commas.

    :param are_added_up: whether a repeated name gets the sum of its numbers; otherwise it is
        refused.
    """
    expected = "a mapping of name to number, such as {load: -1.0}"
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, (list, tuple)):
        pairs = [
            (name.strip(), number)
            for name, _equals, number in (str(part).partition("=") for part in value)
        ]
    elif isinstance(value, Mapping):
        pairs = [(str(name), number) for name, number in value.items()]
    else:
        refuse(expected)
    numbers: dict[str, float] = {}
    for name, each in pairs:
        number = _number(each)
        if number is None or not name:
            refuse(expected)
        if name in numbers and not are_added_up:
            refuse(f"{expected}, in which {name} is once")
        numbers[name] = numbers.get(name, 0.0) + number
    return numbers


def _number(value: Any) -> float | None:
    try:
        value = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def _read_count(mapping: Mapping[str, object], key: str, default: int) -> int:
    value = mapping.get(key)
    if value is None:
        return default
    return validation.read_whole(f"The scheduler policy's '{key}'", value, 1, None, _refusal(key))


def _refusal(*path: str) -> Callable[[str], PolicyError]:
    """Return a function that makes a PolicyError from a sentence about a place in the policy."""
    return lambda sentence: PolicyError(sentence, path)
