# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests of themes that cross modules, such as a law, a page, or a fault.

A test of one module is in tests/unit/PACKAGE/test_MODULE.py.
"""

from __future__ import annotations

from ansible_collections.drover.compute.tests.unit import postgres as server
from ansible_collections.drover.compute.tests.unit.store import prepared

# The name is assigned, not only imported: pylint would report an unused import.
postgres = server.postgres
store_url = server.store_url
prepared_sqlite = prepared.prepared_sqlite
prepared_postgres = prepared.prepared_postgres
prepared_url = prepared.prepared_url
