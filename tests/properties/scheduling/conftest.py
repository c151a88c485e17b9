# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store of the tests of allocation candidates."""

from __future__ import annotations

from ansible_collections.drover.compute.tests.unit.candidates import conftest as candidates

# The name is assigned, not only imported: pylint would report an unused import.
store = candidates.store
