#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_snapshot
short_description: Make snapshots of instances, delete them, revert to them, list them
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Works on instances of the store, on any host, one after the other. Run it on localhost. It takes
    the lease of each host.
  - A snapshot is external and of the disks alone. Each disk that the guest writes to gets a new
    image over the one that it had, in the same folder and with the uuid of the instance in its
    name. The memory is not saved.
  - If the agent of the guest answers, it freezes the file systems during the snapshot, and the
    snapshot is quiesced. Otherwise it is crash-consistent, as after a loss of power, and the result
    says why.
  - The deletion of a snapshot merges the later writes into the image below. The guest loses
    nothing, and may run during the merge.
  - To revert to a snapshot drops all later writes. The instance must be off, and the snapshot must
    be its newest.
  - Internal snapshots, which libvirt keeps in the image, are not made. The module lists and deletes
    existing ones, and reverts to them.
  - An instance with snapshots is not moved to another host. Delete its snapshots first.
  - A failure says if anything was done. If the run or the host is lost before the end, run the same
    task again, which continues. Until then the instance is not started, stopped, moved, resized or
    restarted elsewhere.
options:
  state:
    description:
      - V(present) makes the snapshot, unless there is one of this name. V(absent) deletes it and
        keeps the present data of the guest. V(reverted) goes back to it.
      - Without it, the module lists the snapshots.
    type: str
    choices: [present, absent, reverted]
  snapshot:
    description:
      - The name of the snapshot. A new one has 1 to 64 letters, digits, C(-), C(_) and C(.), with a
        letter or digit at both ends.
    type: str
  description:
    description:
      - A text for a new snapshot. One that exists keeps its own.
    type: str
  discard:
    description:
      - With V(reverted), remove the images that the guest has written to since the snapshot. By
        default the module keeps and names them.
    type: bool
    default: false
  timeout:
    description:
      - Seconds for a merge. After that the task fails, and libvirt continues the merge. Run the
        task again to wait for the merge.
    type: int
    default: 600
  name:
    description: The name of the instance.
    type: str
  uuid:
    description: The uuid of the instance. With O(name), both must agree.
    type: str
  instances:
    description: Several instances. Each is a name, a uuid, or a mapping with C(name) and C(uuid),
      which must agree.
    type: list
    elements: raw
  selector:
    description: Instances with these labels, such as V(project=web,tier!=db,backup,!old). Not
      together with names.
    type: str
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.instance
  - module: drover.compute.instance_disk
"""

EXAMPLES = r"""
- name: Snapshots of instances
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Make one before an upgrade
      drover.compute.instance_snapshot:
        name: web1
        snapshot: before-upgrade
        state: present

    - name: See which there are
      drover.compute.instance_snapshot:
        name: web1
      register: found

    - name: Delete it when the upgrade was good
      drover.compute.instance_snapshot:
        name: web1
        snapshot: before-upgrade
        state: absent
"""

RETURN = r"""
instances:
  description: The result for each instance.
  returned: always
  type: list
  elements: dict
  sample:
    - uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
      name: web1
      host: kvm1
      changed: true
      status: done
      message: ""
      consistency: crash
      consistency_reason: the guest has no agent (qemu-guest-agent) that answers
      removed_files: []
      kept_files: []
  contains:
    uuid: {description: The uuid., type: str, returned: always, sample:
      5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01}
    name: {description: Its name., type: str, returned: always, sample: web1}
    host: {description: Its host., type: str, returned: always, sample: kvm1}
    changed: {description: True if it was changed., type: bool, returned: always, sample: true}
    status: {description: "V(done) or V(failed).", type: str, returned: always, sample: done}
    message: {description: The error., type: str, returned: always, sample: the host cannot be
      reached}
    snapshots:
      description:
        - Its snapshots afterwards, the oldest first. Each has its name, kind (V(external),
          V(internal) or V(with_memory)), created_at (seconds since 1970), state, parent,
          description, current and disks.
      type: list
      elements: dict
      returned: always
      sample: [{name: before-upgrade, kind: external, created_at: 1795516440, state: disk-snapshot,
        parent: null, description: null, current: true}]
    consistency:
      description:
        - Of a new snapshot. V(quiesced), the guest had written all that it had; V(crash), as after
          a loss of power; V(off), the guest was off.
      type: str
      returned: always
      sample: crash
    consistency_reason: {description: Why it is V(crash)., type: str, returned: always, sample: the
      guest is paused}
    removed_files: {description: Images that were removed., type: list, elements: str, returned:
      always, sample: [/srv/web1.qcow2]}
    kept_files: {description: "Unused images that were kept, each with path and reason.", type:
      list, elements: dict,
      returned: always, sample: [{path: /srv/web1.qcow2, reason: the domain clone uses it}]}
table:
  description: The snapshots as lines for a terminal.
  returned: always
  type: list
  elements: str
  sample: ["INSTANCE  SNAPSHOT        KIND      MADE", "web1      before-upgrade  external  2026-11-24 10:34 UTC"]
"""
