#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: store
short_description: Make, audit, export or import the store
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Works on the store as a whole, in one transaction.
  - Every task that writes to the store makes or upgrades its tables by itself; an explicit task is for those who want
    to do it at a moment of their choice, or with a database role that may.
  - A store that a newer version of the collection wrote is refused and left as it is. There is no way down.
options:
  state:
    description:
      - V(present) makes sure that the tables are there and current.
      - V(audited) looks for what contradicts itself in the store, or contradicts what hosts last showed. No host is asked,
        so run the playbook drover.compute.discover first. What is found is shown as a table.
      - V(exported) writes everything to O(path).
      - V(imported) fills an empty store from O(path). A store that has rows is refused, unless they are just those of the file.
    type: str
    choices: [present, audited, exported, imported]
    default: present
  heal:
    description:
      - With O(state=audited), mend what is safe, all in one transaction. Domains are never touched, only records.
      - Use that is miscounted is counted again. An instance whose domain is on exactly one host and that has no open migration
        gets the allocation it should have there, over capacity or not. Allocations of nobody, where no host shows a domain
        of that uuid, and those of closed migrations are dropped.
    type: bool
    default: false
  release_expired:
    description:
      - With O(state=audited), count claims that expired before any host showed their domain as safe to release,
        which O(heal=true) then does.
    type: bool
    default: false
  path:
    description:
      - The file on the controller to export to or to import from. Required with O(state=exported) and O(state=imported).
      - An export is JSON lines with checksums, readable for its owner only, and takes the place of an older file as a whole.
        Its folder has to exist.
      - An import wants an export of the same schema that is as it was written, and is refused before anything is written otherwise.
    type: path
attributes:
  check_mode:
    support: full
    details:
      - An import is tried as a whole and rolled back.
  diff_mode:
    support: full
    details:
      - Shows the revision of the schema, the tables of findings, or the number of rows of each table.
  idempotent:
    support: full
    details:
      - An export that has just the rows of the store is left as it is.
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

- name: See what an audit finds
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Look at the store and change nothing
      drover.compute.store:
        state: audited
      register: audited

    - name: Show how many there are of each kind
      ansible.builtin.debug:
        var: audited.counts

- name: Keep a copy of the store
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Export the store
      drover.compute.store:
        state: exported
        path: "{{ playbook_dir }}/drover-store.jsonl"

    - name: Import it into another one
      drover.compute.store:
        state: imported
        path: "{{ playbook_dir }}/drover-store.jsonl"
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
  sample: "0003"
findings:
  description: What the audit found, the gravest first.
  returned: when O(state=audited)
  type: list
  elements: dict
  contains:
    kind:
      description: What it is; docs/audit.md of the collection says what each means.
      type: str
      sample: allocation_missing
    level:
      description: V(problem), or V(information) where nothing has to be done.
      type: str
      sample: problem
    uuid:
      description: The uuid of the instance, domain, consumer, compute node or provider.
      type: str
      sample: 4f7b7d2e-0c52-4a3e-8a53-6d2a43b0a0c1
    name:
      description: The name of the instance, domain or compute node.
      type: str
      sample: web1
    host:
      description: The host; several are separated by a comma.
      type: str
      sample: kvm1
    provider:
      description: The name of the resource provider.
      type: str
      sample: kvm1
    resource:
      description: The resource class.
      type: str
      sample: VCPU
    why:
      description: What is wrong.
      type: str
      sample: It takes VCPU 2, MEMORY_MB 2048 and holds nothing.
    advice:
      description: What to do about it.
      type: str
      sample: Run drover.compute.discover on its host, or the audit with drover_heal=true.
    safe:
      description: Whether O(heal=true) mends it.
      type: bool
      sample: true
    heal:
      description: What O(heal=true) does about it, or why it leaves it.
      type: str
      sample: gives it VCPU 2, MEMORY_MB 2048 on kvm1, over capacity or not
mended:
  description: Those of RV(findings) that were mended, or would be in check mode.
  returned: when O(state=audited)
  type: list
  elements: dict
left:
  description: What is left, in the shape of RV(findings); without O(heal=true) the same.
  returned: when O(state=audited)
  type: list
  elements: dict
counts:
  description: How many of each kind are left.
  returned: when O(state=audited)
  type: dict
  sample: {allocation_missing: 1}
sound:
  description: Whether nothing is left but information.
  returned: when O(state=audited)
  type: bool
  sample: false
table:
  description: RV(findings) as lines for people.
  returned: when O(state=audited)
  type: list
  elements: str
mended_table:
  description: RV(mended) as lines for people.
  returned: when O(state=audited)
  type: list
  elements: str
left_table:
  description: RV(left) as lines for people.
  returned: when O(state=audited)
  type: list
  elements: str
path:
  description: The file that was written or read.
  returned: when O(state=exported) or O(state=imported)
  type: str
  sample: /srv/backup/drover-store.jsonl
rows:
  description: How many rows each table has.
  returned: when O(state=exported) or O(state=imported)
  type: dict
  sample: {instances: 40, services: 10}
checksums:
  description: The SHA-256 of the lines of each table, the same for the same rows on SQLite and PostgreSQL.
  returned: when O(state=exported) or O(state=imported)
  type: dict
  sample: {traits: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}
"""
