# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The failure of work on a hypervisor, in words for an operator."""

from __future__ import annotations


class Problem(Exception):
    """A failure with a text that names the remedy for the operator."""


def sentence(problem: Exception) -> str:
    """Return the text of a failure as a sentence. A text with a full stop is already a sentence,
    and may begin with a name.
    """
    text = str(problem)
    return text if text.endswith(".") else f"{text[:1].upper()}{text[1:]}."
