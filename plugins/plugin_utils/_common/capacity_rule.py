# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Placement's rule of capacity (N10.2), for numbers, NumPy arrays and columns of SQL alike.

An amount fits an inventory when has_room() and is_allowed() both hold.
"""

from __future__ import annotations

from typing import Any


def capacity(total: Any, reserved: Any, ratio: Any) -> Any:
    """Return the amount of a class that may be allocated, unrounded."""
    return (total - reserved) * ratio


def has_room(used: Any, amount: Any, most: Any) -> Any:
    """Return True if an amount more stays within a capacity."""
    return used + amount <= most


def is_allowed(amount: Any, min_unit: Any, max_unit: Any, step_size: Any) -> Any:
    """Return True if a single allocation may be of this amount, however much room there is."""
    return (amount >= min_unit) & (amount <= max_unit) & (amount % step_size == 0)
