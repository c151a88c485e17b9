# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bases of your own host filters and weighers: the one public module of this folder.

HostFilter, Weigher: subclass one of them to have options of the policy. HostStates, HostView,
RequestSpec: the arguments of their methods.
"""

from __future__ import annotations

from ._scheduler.components import HostFilter, HostView, Weigher
from ._scheduler.host_states import HostStates
from ._scheduler.request_spec import RequestSpec

__all__ = ["HostFilter", "HostStates", "HostView", "RequestSpec", "Weigher"]
