# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create or delete custom traits."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.custom_names import (
    CustomNames,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import classes_and_traits


class ActionModule(CustomNames):
    KIND = classes_and_traits.TRAIT
