# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter explain: a decision of the lookup schedule as lines for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._report.explanation import render


def explain(value: Any, numbers: bool = False) -> list[str]:
    """See explain.yml."""
    value = to_plain(value)
    if isinstance(value, list):
        return [line for each in value for line in explain(each, numbers)]
    try:
        return render(value, numbers)
    except (AttributeError, KeyError, TypeError):
        raise AnsibleFilterError(
            "explain takes a selection of the lookup drover.compute.schedule, or a list of them."
        ) from None


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"explain": explain}
