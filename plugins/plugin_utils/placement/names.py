# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of resource classes and traits that exist: the standard ones, and those in the store."""

from __future__ import annotations

try:
    import os_traits
except ImportError:
    os_traits = None
try:
    import os_resource_classes
except ImportError:
    os_resource_classes = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, require

SHARES = "MISC_SHARES_VIA_AGGREGATE"


def check_classes(asked, stored):
    """Refuse a resource class that does not exist.

    :param asked: {name: the key that names it}.
    :param stored: the names in the store.
    """
    unknown = {name: key for name, key in asked.items() if name not in stored}
    if unknown:
        require("os-resource-classes", os_resource_classes)
        _refuse(unknown, set(os_resource_classes.STANDARDS), "resource class")


def check_traits(asked, stored):
    """Refuse a trait that does not exist; parameters as check_classes."""
    unknown = {name: key for name, key in asked.items() if name not in stored}
    if unknown:
        require("os-traits", os_traits)
        _refuse(unknown, set(os_traits.get_traits()), "trait")


def _refuse(unknown, standard, what):
    for name, key in sorted(unknown.items()):
        if name not in standard:
            raise DroverError(
                f"{key} names the {what} '{name}', which does not exist: it is no standard one and the store has no "
                f"such custom one. Correct the name, or make the {what} first."
            )
