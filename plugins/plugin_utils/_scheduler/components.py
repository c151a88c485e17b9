# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bases of host filters and weighers, and the finder that loads them by name.

A host filter or a weigher is one class in one file of ``host_filters/`` or ``weighers/``; a file in
this folder is enough to add one.
"""

from __future__ import annotations

import glob
import importlib
import importlib.util
import os
import pkgutil
import re
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import Any

from .._common.arrays import BoolArray, FloatArray, IntArray, np
from .attributes import NAMES, READ_ON_WISH, lookup
from .errors import SchedulerError
from .host_states import HostStates
from .request_spec import RequestSpec

PACKAGE = "ansible_collections.drover.compute.plugins.plugin_utils._scheduler"


class Component:
    """The common base of host filters and weighers.

    name: its name in policies and explanations. options: policy keys that it reads, with their
    defaults; the type of the default is the type of the option.
    """

    name = ""
    options: Mapping[str, Any] = {}
    #: Optional columns of the host states (attributes.OPTIONAL, node_flavors, ...) that it reads.
    reads: tuple[str, ...] = ()
    #: True if placed instances change no answer, so that equivalent instances share one answer.
    run_filter_once_per_request = False

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        chosen = options or {}
        self.option = {key: chosen.get(key, default) for key, default in self.options.items()}

    def needs(self, spec: RequestSpec) -> Collection[str]:
        """Return the names of the optional columns that it reads for this request."""
        return self.reads


class HostFilter(Component):
    """A rule that selects the hosts that may take an instance. It keeps no state between calls.

    A subclass writes ``passes`` (all hosts at once) or ``host_passes`` (host by host).
    """

    #: The resource class with the room that it checks, if any.
    resource_class = ""
    #: False if the filter also applies to a host that force_hosts or force_nodes names.
    skipped_when_forced = True

    def passes(self, states: HostStates, spec: RequestSpec) -> BoolArray:
        """Return a bool array of length states.size: True where the instance may go."""
        return states.mask(lambda index: self._passes(states, spec, index))

    def not_applicable(self, spec: RequestSpec) -> bool:
        """Return True if this request gives the filter nothing to do, so that every host passes in
        any case.
        """
        return False

    def host_passes(self, host: Any, spec: RequestSpec) -> bool:
        """Return True if the instance may go to this host. ``host`` is a HostView with the names of
        attributes.py.
        """
        raise NotImplementedError

    def _passes(self, states: HostStates, spec: RequestSpec, index: int) -> bool:
        host = HostView(states, index)
        try:
            return bool(self.host_passes(host, spec))
        except SchedulerError:
            raise
        except Exception as problem:
            raise SchedulerError(
                f"The host filter {self.name} failed on host {states.label(index)}:"
                f" {type(problem).__name__}: {problem}. Correct the filter or take it out of"
                " enabled_filters."
            ) from None

    def rejection_reason(self, states: HostStates, spec: RequestSpec, index: int) -> str:
        """Return in words why this filter rejects row ``index``. It is only called for rejected
        rows.
        """
        return f"{self.name} says no"

    def reason(self, states: HostStates, spec: RequestSpec, index: int) -> str | None:
        """Return rejection_reason(), None from a filter that gives no reason."""
        text = self.rejection_reason(states, spec, index)
        return None if text == f"{self.name} says no" else text

    def distance(self, states: HostStates, spec: RequestSpec, index: int) -> float:
        """Return the distance of row ``index`` from passing: about 0 is near, 1 and more is far.

        It only orders the near misses. A filter with a yes-or-no rule does not override this.
        """
        return 1.0


class Weigher(Component):
    """A weigher gives each host a raw value; the scheduler normalises and multiplies it (N3.1).

    multiplier_option: name of the option (in ``options``) with the multiplier. minval, maxval: ends
    of the scale if fixed, otherwise None.
    """

    multiplier_option = ""
    #: A further factor of the multiplier (-1 for values that count against a host).
    sign = 1.0
    #: The least multiplier that the policy may give, or None.
    least_multiplier: float | None = None
    minval: float | None = None
    maxval: float | None = None
    #: In explanations: the measured thing of the raw value, the names of its highest and lowest
    #: value, and its unit (``MiB``, or an empty text for a count); None if the value means nothing
    #: to people.
    measures = ""
    extremes = ("most", "least")
    unit: str | None = None

    def __init__(
        self, options: Mapping[str, Any] | None = None, multiplier: float | None = None
    ) -> None:
        super().__init__(options)
        self.multiplier = (
            self.option.get(self.multiplier_option, 1.0) if multiplier is None else multiplier
        )
        if self.multiplier_option in self.option:
            self.option[self.multiplier_option] = self.multiplier

    def raw(self, states: HostStates, spec: RequestSpec) -> FloatArray | float:
        """Return a float64 array of length states.size, or one number if all hosts have the same
        value.
        """
        weights = np.zeros(states.size, dtype=np.float64)
        for index in range(states.size):
            try:
                weights[index] = float(self.weigh(HostView(states, index), spec))
            except Exception as problem:
                raise SchedulerError(
                    f"The weigher {self.name} failed on host {states.label(index)}:"
                    f" {type(problem).__name__}: {problem}. Correct the weigher or take it out of"
                    " weighers."
                ) from None
        return weights

    def raw_of(self, states: HostStates, spec: RequestSpec, passed: IntArray) -> FloatArray | float:
        """Return raw() for the rows that passed the host filters; the other rows do not count."""
        return self.raw(states, spec)

    def weigh(self, host: HostView, spec: RequestSpec) -> float:
        """Return the raw value of one host, for weighers that go host by host."""
        raise NotImplementedError


class HostView:
    """One row of the host states under the names of N1.1, read-only.

    Beside the attributes of attributes.py it has aggregates (names) and metadata ({key: set of
    values}).
    """

    def __init__(self, states: HostStates, index: int) -> None:
        self._states = states
        self._index = index

    def __getattr__(self, name: str) -> Any:
        column = lookup(self._states, name) if not name.startswith("_") else None
        if column is None:
            raise AttributeError(
                f"a host has no '{name}'; it has {', '.join(NAMES)}, aggregates, metadata and zones"
            )
        return column[self._index]

    @property
    def aggregates(self) -> list[str]:
        return list(self._states.aggregates.at(self._index).names)

    @property
    def metadata(self) -> dict[str, set[str]]:
        return {
            key: set(values)
            for key, values in self._states.aggregates.at(self._index).split.items()
        }

    @property
    def zones(self) -> list[str]:
        return self._states.zones_at(self._index)


_FOUND: dict[str, dict[str, type[Any]]] = {}
BASES: dict[str, type[Any]] = {"host_filters": HostFilter, "weighers": Weigher}


def find(kind: str) -> dict[str, type[Any]]:
    """Return every component in a folder of the scheduler.

    :param kind: "host_filters" or "weighers".
    :raises SchedulerError: two files claim one name.
    """
    if kind not in _FOUND:
        package = importlib.import_module(f"{PACKAGE}.{kind}")
        base: type[Component] = BASES[kind]
        classes: dict[str, type[Any]] = {}
        for entry in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{PACKAGE}.{kind}.{entry.name}")
            for thing in vars(module).values():
                if (
                    not isinstance(thing, type)
                    or not issubclass(thing, base)
                    or thing.__module__ != module.__name__
                ):
                    continue
                if not thing.name:
                    continue
                if thing.name in classes:
                    raise SchedulerError(
                        f"Two files of {kind} define {thing.name}; rename one of them."
                    )
                classes[thing.name] = thing
        _FOUND[kind] = dict(sorted(classes.items()))
    return _FOUND[kind]


class Catalogue:
    """The scheduler's own components and the user's.

    The name of a user's class is its class name if its file is in a ``host_filters`` or
    ``weighers`` folder beside the playbook. It is namespace.collection.ClassName if the class is in
    ``plugins/plugin_utils`` of a collection, in its folder host_filters or weighers, in a file with
    its name in snake case.
    """

    def __init__(self, kind: str, folders: Sequence[str] = ()) -> None:
        self.kind = kind
        self.own = find(kind)
        self._files: dict[str, str] = {}
        for folder in folders:
            for path in sorted(glob.glob(os.path.join(folder, kind, "*.py"))):
                self._files.setdefault(os.path.splitext(os.path.basename(path))[0], path)
        self._users: dict[str, type[Any] | None] = {}

    @property
    def names(self) -> list[str]:
        """The existing names, for messages."""
        return [*self.own, *sorted(camel(name) for name in self._files if not name.startswith("_"))]

    def get(self, name: str) -> Any:
        """Return the class of a component, None if there is none of that name.

        :raises SchedulerError: the user's file cannot be loaded, or has no such class.
        """
        if name in self.own:
            return self.own[name]
        if name not in self._users:
            self._users[name] = self._load_class(name)
        return self._users[name]

    def _load_class(self, name: str) -> type[Any] | None:
        parts = name.split(".")
        if len(parts) == 3 and all(part.isidentifier() for part in parts):
            path = f"ansible_collections.{parts[0]}.{parts[1]}.plugins.plugin_utils.{self.kind}.{snake(parts[2])}"
            try:
                module = importlib.import_module(path)
            except Exception as problem:
                raise SchedulerError(
                    f"{path} cannot be loaded: {type(problem).__name__}: {problem}."
                ) from None
            return self._class(module, parts[2], path, name)
        file = self._files.get(snake(name))
        if file is None:
            return None
        spec = importlib.util.spec_from_file_location(
            f"drover_user_{self.kind}_{snake(name)}", file
        )
        # A file that ends in .py has a loader.
        module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
        try:
            spec.loader.exec_module(module)  # type: ignore[union-attr]
        except Exception as problem:
            raise SchedulerError(
                f"{file} cannot be loaded: {type(problem).__name__}: {problem}."
            ) from None
        return self._class(module, name, file, name)

    def _class(self, module: ModuleType, name: str, where: str, full: str) -> type[Any]:
        named_class = getattr(module, name, None)
        if not isinstance(named_class, type):
            raise SchedulerError(f"{where} has no class {name}.")
        base = BASES[self.kind]
        methods = ("passes", "host_passes") if self.kind == "host_filters" else ("raw", "weigh")
        if not any(
            getattr(named_class, method, None) not in (None, getattr(base, method))
            for method in methods
        ):
            raise SchedulerError(
                f"{name} in {where} has neither a method {methods[0]} nor {methods[1]}."
            )
        bases = (named_class,) if issubclass(named_class, base) else (named_class, base)
        extra: dict[str, Any] = {"name": full}
        if not getattr(named_class, "reads", ()) and getattr(named_class, methods[0], None) in (
            None,
            getattr(base, methods[0]),
        ):
            # The plain form does not declare the columns that it reads.
            extra["reads"] = READ_ON_WISH
        if self.kind == "weighers" and not getattr(named_class, "multiplier_option", ""):
            extra["multiplier_option"] = snake(name).removesuffix("_weigher") + "_weight_multiplier"
        if not issubclass(named_class, base):
            extra["__init__"] = base.__init__
        made = type(name, bases, extra)
        made.__module__ = named_class.__module__
        return made


def snake(name: str) -> str:
    """Return RamFilter as ram_filter."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def camel(name: str) -> str:
    """Return ram_filter as RamFilter."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
