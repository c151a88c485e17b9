# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bases of host filters and weighers, and the finder that loads them by name.

A host filter or a weigher is one class in one file of ``host_filters/`` or ``weighers/``; putting a
file there is all it takes to add one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.errors import SchedulerError

PACKAGE = "ansible_collections.drover.compute.plugins.plugin_utils.scheduler"


class Component:
    """What host filters and weighers share.

    name: what policies and explanations call it.
    options: policy keys that it reads, with their defaults; the default's type is the option's type.
    """

    name = ""
    options: Mapping = {}

    def __init__(self, options=None):
        chosen = options or {}
        self.option = {key: chosen.get(key, default) for key, default in self.options.items()}


class HostFilter(Component):
    """Says which hosts may take an instance. Keeps no state between calls."""

    def passes(self, states, spec):
        """bool array of length states.size: True where the instance may go."""
        raise NotImplementedError

    def lacks(self, states, spec, index):
        """In words, why this filter rejects row ``index``. Only called where it does."""
        raise NotImplementedError

    def distance(self, states, spec, index):
        """How far row ``index`` is from passing; 0 is nearly, 1 and more is far.

        Only orders the near misses. A filter whose rule is yes or no keeps this 1.
        """
        return 1.0


class Weigher(Component):
    """Gives each host a raw value; the scheduler normalises and multiplies (NOVA_SEMANTICS 3.1).

    multiplier_option: name of the option (in ``options``) that holds the multiplier.
    minval, maxval: ends of the scale when fixed, else None.
    """

    multiplier_option = ""
    minval = None
    maxval = None

    def raw(self, states, spec):
        """float64 array of length states.size."""
        raise NotImplementedError


_FOUND: dict = {}


def find(kind):
    """Every component in a folder of the scheduler.

    :param kind: "host_filters" or "weighers".
    :returns: {name: class}, in order of names.
    :raises SchedulerError: two files claim one name.
    """
    if kind not in _FOUND:
        base = {"host_filters": HostFilter, "weighers": Weigher}[kind]
        package = importlib.import_module(f"{PACKAGE}.{kind}")
        found = {}
        for entry in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{PACKAGE}.{kind}.{entry.name}")
            for thing in vars(module).values():
                if not isinstance(thing, type) or not issubclass(thing, base) or thing.__module__ != module.__name__:
                    continue
                if not thing.name:
                    continue
                if thing.name in found:
                    raise SchedulerError(f"Two files of {kind} define {thing.name}; rename one of them.")
                found[thing.name] = thing
        _FOUND[kind] = dict(sorted(found.items()))
    return _FOUND[kind]
