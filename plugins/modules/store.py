#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: store
short_description: Create, heal, export or import the store
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Works on the store as a whole, in one transaction.
  - Every task that writes to the store creates or upgrades its tables by itself. Use an explicit
    task to choose the time, or to use a database role with the rights for it.
  - The module refuses a store of a newer version of the collection and does not change it. A
    downgrade is not possible.
options:
  state:
    description:
      - V(present) makes sure that the tables exist and are current.
      - V(healed) repairs the safe ones of the problems that M(drover.compute.store_audit_info)
        finds, all in one transaction. It changes only records, never domains. It reads only the
        store, so run the playbook drover.compute.discover first.
      - A wrong count of use is counted again. An instance without an open migration and with its
        domain on exactly one host gets its right allocation there, even above the capacity.
        Allocations without an instance or migration are deleted, if no host shows a domain of that
        uuid, and so are allocations of closed migrations.
      - V(exported) writes everything to O(path).
      - V(imported) fills an empty store from O(path). The module refuses a store that has rows,
        unless the file has exactly the same rows.
    type: str
    choices: [present, healed, exported, imported]
    default: present
  release_expired:
    description:
      - With O(state=healed), also release claims that expired before any host showed their domain.
    type: bool
    default: false
  path:
    description:
      - The file on the controller to export to or to import from. Required with O(state=exported)
        and O(state=imported).
      - An export is a SQLite database with a checksum. Its mode is 0600, and it replaces an older
        file as a whole. Its folder must exist.
      - An import needs an unchanged export of the same schema. Otherwise the module refuses it
        before it writes anything.
    type: path
attributes:
  check_mode:
    support: full
    details:
      - An import runs as a whole and is rolled back.
  diff_mode:
    support: full
    details:
      - Shows the revision of the schema, the findings before and after, or the number of rows of
        each table.
  idempotent:
    support: full
    details:
      - An export that already has exactly the rows of the store is not written again.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Create the tables in PostgreSQL
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Create or upgrade the store
      drover.compute.store:
        store_url: "{{ lookup('ansible.builtin.env', 'DROVER_STORE_URL') or omit }}"

- name: Repair what is safe to repair
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Heal the store
      drover.compute.store:
        state: healed
      register: healed

    - name: Show the number of findings of each kind that are left
      ansible.builtin.debug:
        var: healed.counts

- name: Keep a copy of the store
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Export the store
      drover.compute.store:
        state: exported
        path: "{{ playbook_dir }}/drover-store.sqlite"

    - name: Import it into another one
      drover.compute.store:
        state: imported
        path: "{{ playbook_dir }}/drover-store.sqlite"
        store_url: sqlite:///{{ playbook_dir }}/copy.db
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
  sample: "0100"
findings:
  description: The findings of the audit before the repair, as M(drover.compute.store_audit_info)
    returns them.
  returned: when O(state=healed)
  type: list
  elements: dict
  sample: [{kind: use_miscounted, level: problem, name: kvm3, host: kvm3, provider: kvm3, resource:
    VCPU, why: '2 is counted as used, and 0 is allocated.', safe: true, heal: 'Heal counts again:
    0'}]
mended:
  description: The repaired RV(findings); in check mode the ones that would be repaired.
  returned: when O(state=healed)
  type: list
  elements: dict
  sample: [{kind: use_miscounted, level: problem, name: kvm3, host: kvm3, provider: kvm3, resource:
    VCPU, why: '2 is counted as used, and 0 is allocated.', safe: true, heal: 'Heal counts again:
    0'}]
left:
  description: The remaining findings, in the form of RV(findings).
  returned: when O(state=healed)
  type: list
  elements: dict
  sample: [{kind: allocation_missing, level: problem, name: web3, host: kvm3, provider: kvm3,
    resource: null, why: 'It takes VCPU 2, MEMORY_MB 4096, DISK_GB 20 and holds nothing.', safe:
      true, heal: 'Heal gives it VCPU 2, MEMORY_MB 4096, DISK_GB 20 on kvm3,
    over capacity or not'}]
counts:
  description: The number of remaining findings of each kind.
  returned: when O(state=healed)
  type: dict
  sample: {allocation_missing: 1}
checked:
  description: The numbers of hosts, instances and allocations that the audit checked. An allocation
    is an amount of one resource class.
  returned: when O(state=healed)
  type: dict
  sample: {hosts: 12, instances: 333, allocations: 999}
sound:
  description: True if only information is left.
  returned: when O(state=healed)
  type: bool
  sample: false
table:
  description: RV(findings) as lines of text.
  returned: when O(state=healed)
  type: list
  elements: str
  sample: ['FINDING         NAME  HOST  WHY, AND WHAT HEAL DOES', 'use_miscounted  kvm3  kvm3  VCPU:
    2 is counted as used, and 0 is allocated. Heal counts again: 0']
mended_table:
  description: RV(mended) as lines of text.
  returned: when O(state=healed)
  type: list
  elements: str
  sample: ['FINDING         NAME  HOST  WHY, AND WHAT HEAL DOES', 'use_miscounted  kvm3  kvm3  VCPU:
    2 is counted as used, and 0 is allocated. Heal counts again: 0']
left_table:
  description: RV(left) as lines of text.
  returned: when O(state=healed)
  type: list
  elements: str
  sample: ['FINDING             NAME  HOST  WHY, AND WHAT HEAL DOES', 'allocation_missing  web3  kvm3  It takes VCPU 2, MEMORY_MB 4096,
    DISK_GB 20 and holds nothing.']
path:
  description: The file that was written or read.
  returned: when O(state=exported) or O(state=imported)
  type: str
  sample: /srv/backup/drover-store.sqlite
rows:
  description: The number of rows of each table.
  returned: when O(state=exported) or O(state=imported)
  type: dict
  sample: {instances: 40, services: 10}
checksum:
  description: The SHA-256 of the file, in which the checksum itself counts as zeros. Null if check
    mode did not write it.
  returned: when O(state=exported) or O(state=imported)
  type: str
  sample: 5d41b2d1a8e3c0f7c9a64e8a4d1b0b4f7f5f9a3f0c5d2e6b8a7c1d9e0f3a2b4c
"""
