#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: show
short_description: Show lines in the terminal
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Shows lines as they are, such as the table of another module. With Ansible's default settings
    M(ansible.builtin.debug) shows them as JSON, with quotes.
  - No line is wider than the terminal, or than the environment variable C(COLUMNS) says. Text that
    does not fit is folded, in a table below its last column. If the output is not a terminal, and
    in AWX, lines stay whole.
options:
  lines:
    description:
      - The lines. A text with line breaks counts as several.
    type: list
    elements: str
    required: true
attributes:
  check_mode:
    support: full
    details:
      - The lines are shown in check mode, too.
  diff_mode:
    support: N/A
    details:
      - The module changes nothing.
  idempotent:
    support: full
    details:
      - The module changes nothing.
extends_documentation_fragment:
  - drover.compute.attributes
"""

EXAMPLES = r"""
- name: Show the hosts
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read the hosts
      drover.compute.host_info:
      register: fleet

    - name: Show them as a table
      drover.compute.show:
        lines: "{{ fleet.table }}"
"""

RETURN = r"""
changed:
  description: False; nothing is changed.
  returned: success
  type: bool
  sample: false
"""
