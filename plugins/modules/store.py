#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: store
short_description: Make or upgrade the store's tables
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Makes the tables of the store, or upgrades those of an older version, in one transaction.
  - Every task that writes to the store does this by itself; an explicit task is for those who want to do it
    at a moment of their choice, or with a database role that may.
  - A store that a newer version of the collection wrote is refused and left as it is.
options:
  state:
    description:
      - V(present) makes sure that the tables are there and current. There is no way down.
    type: str
    choices: [present]
    default: present
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Make the tables in PostgreSQL
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make or upgrade the store
      drover.compute.store:
        store_url: "{{ lookup('ansible.builtin.env', 'DROVER_STORE_URL') or omit }}"
"""

RETURN = r"""
url:
  description: The URL of the store, without its password.
  returned: success
  type: str
  sample: postgresql+psycopg://drover:***@db.example.com/drover
revision:
  description: The revision of the schema.
  returned: success
  type: str
  sample: "0001"
"""
