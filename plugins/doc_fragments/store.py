# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The option with the place of the store."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragments ``drover.compute.store`` and, for lookups and inventory,
    ``.plugin``.
    """

    DOCUMENTATION = r"""
options:
  store_url:
    description:
      - The SQLAlchemy URL of the store, such as V(sqlite:////var/lib/drover/store.db) or
        V(postgresql://drover:secret@db.example.com/drover). The password in it is never shown.
      - Without it the variable C(drover_store_url) is used, then the environment variable
        E(DROVER_STORE_URL), then C(store_url) in the section C([drover]) of C(ansible.cfg), then
        SQLite in C(drover/store.db) under Ansible's home.
    type: str
requirements:
  - SQLAlchemy, alembic, os-traits and numpy on the controller; psycopg for PostgreSQL; see
    requirements.txt of the collection
"""

    PLUGIN = r"""
options:
  store_url:
    env:
      - name: DROVER_STORE_URL
    ini:
      - section: drover
        key: store_url
    vars:
      - name: drover_store_url
"""
