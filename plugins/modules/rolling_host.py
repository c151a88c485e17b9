#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: rolling_host
short_description: How far a rolling maintenance has come
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - The role drover.compute.rolling writes into the store what it is about to do with each host, so that a run that was stopped or killed is
    gone on with by the next one. This module does that, and reads it. It does nothing to a host.
  - Without O(hosts) it returns what is there.
options:
  hosts:
    description: Hosts to write about. With O(state=absent), none means all.
    type: list
    elements: str
    default: []
  state:
    description: V(absent) takes hosts out of the record.
    type: str
    choices: [present, absent]
    default: present
  stage:
    description: What is about to be done with the hosts. Without it a new one is V(waiting).
    type: str
    choices: [waiting, before_drain, drain, after_drain, reboot, after_reboot, enable, after_enable, back, done]
  boot_id:
    description: The boot of the host before its reboot. An empty text takes it away.
    type: str
  instances:
    description: What was on the host before its drain, each with C(uuid), C(host) and C(node).
    type: list
    elements: dict
  message:
    description: What went wrong. An empty text takes it away.
    type: str
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: See how far the maintenance is
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read it
      drover.compute.rolling_host:
      register: rolling

    - name: Show it
      ansible.builtin.debug:
        msg: "{{ item.host }}: {{ item.stage }}{{ ', ' ~ item.message if item.message else '' }}"
      loop: "{{ rolling.hosts }}"
      loop_control:
        label: "{{ item.host }}"

    - name: Give it up, so that the next run begins anew
      drover.compute.rolling_host:
        state: absent
"""

RETURN = r"""
hosts:
  description: All hosts of the maintenance that is not finished, sorted.
  returned: success
  type: list
  elements: dict
  contains:
    host: {description: The host., type: str, returned: always}
    stage: {description: "What was last begun with it, V(done) when all is.", type: str, returned: always}
    boot_id: {description: Its boot before the reboot., type: str, returned: always}
    instances: {description: What was on it before its drain., type: list, elements: dict, returned: always}
    message: {description: What went wrong., type: str, returned: always}
    created_at: {description: "When it was taken into the maintenance, in seconds since 1970.", type: float, returned: always}
    updated_at: {description: "When this was last changed, in seconds since 1970.", type: float, returned: always}
"""
