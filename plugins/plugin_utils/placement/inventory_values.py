# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inventories as an operator gives them, checked (NOVA_SEMANTICS 10.1)."""

from __future__ import annotations

import math
import re

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError

# Placement's limits: a 32-bit amount, a single-precision ratio.
MOST = 2**31 - 1
MOST_RATIO = 3.40282e38
DEFAULTS = {"reserved": 0, "min_unit": 1, "max_unit": MOST, "step_size": 1, "allocation_ratio": 1.0}
_LEAST = {"total": 1, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}
_WHOLE = re.compile(r"[+-]?[0-9]{1,30}")


def complete(where, inventories):
    """Inventories with Placement's defaults for what is not given.

    :param where: what begins a refusal, such as ``Resource provider x``.
    :param inventories: dict class name -> dict of total and any of DEFAULTS.
    :returns: the same with every field, amounts as int and the ratio as float.
    :raises DroverError: an unknown field, a wrong type, an amount out of range, reserved above total.
    """
    return {name: _complete(f"{where}, inventory of {name}", given) for name, given in inventories.items()}


def _complete(where, given):
    if not isinstance(given, dict):
        raise DroverError(f"{where}: must be a mapping such as {{total: 4}}, not {given!r}.")
    unknown = sorted(set(map(str, given)) - {"total", *DEFAULTS})
    if unknown:
        raise DroverError(f"{where}: unknown field {', '.join(unknown)}. Known: total, {', '.join(DEFAULTS)}.")
    if given.get("total") is None:
        raise DroverError(f"{where}: total is missing. Say how much there is.")
    given = {**DEFAULTS, **{name: value for name, value in given.items() if value is not None}}
    values = {name: _amount(f"{where}: {name}", given[name], least) for name, least in _LEAST.items()}
    values["allocation_ratio"] = _ratio(f"{where}: allocation_ratio", given["allocation_ratio"])
    if values["reserved"] > values["total"]:
        raise DroverError(
            f"{where}: {values['reserved']} cannot be reserved of a total of {values['total']}. Lower reserved."
        )
    if values["min_unit"] > values["max_unit"]:
        raise DroverError(
            f"{where}: min_unit {values['min_unit']} is above max_unit {values['max_unit']}, so that nothing could "
            "ever be claimed. Correct one of them."
        )
    return values


def _amount(where, value, least):
    # A template gives text.
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DroverError(f"{where} must be a whole number, not {value!r}.")
    if not least <= value <= MOST:
        raise DroverError(f"{where} must be from {least} to {MOST}, not {value}.")
    return value


def _ratio(where, value):
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not 0 < number <= MOST_RATIO:
        raise DroverError(f"{where} must be a number above 0 and at most {MOST_RATIO:g}, not {value!r}.")
    return number
