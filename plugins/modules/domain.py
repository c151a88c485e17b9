#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: domain
short_description: Create, define, start, stop or remove one libvirt domain with its disks
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - One call creates the disks and the seed, defines the domain, starts it and checks that it runs.
    If a step fails, the call removes exactly the files and the domain that it has created.
  - A domain is identified by its uuid. A domain that is already defined is not defined again, and
    its disks are not changed.
  - No file is ever overwritten. An existing disk, left by a killed run, is accepted if its format,
    size and backing file are as requested and it has no data; a seed if its content is the same.
    The module refuses a path that another domain uses, even if no file exists there.
  - It looks at its own hypervisor only. If an operator has moved the domain to another host,
    O(state=running) starts it a second time. For an instance of the store use
    M(drover.compute.instance), which reads the other hosts first and refuses then.
options:
  name:
    description:
      - The name of the domain. With O(xml) it must be the name in it.
      - One of O(name), O(uuid) and O(xml) is required.
    type: str
  uuid:
    description:
      - The uuid of the domain. With O(xml) it must be the uuid in it, and is added if the XML has
        none.
    type: str
  xml:
    description:
      - The domain XML to define if the domain is not defined yet.
    type: str
  state:
    description:
      - V(running) creates and defines the domain if it is missing, and starts or resumes it.
      - V(present) creates and defines it if it is missing, and otherwise does not change it.
      - V(stopped) does the same, shuts it down if it runs, and waits until it is off.
      - V(absent) shuts it down and removes its definition. The module refuses a domain while one of
        its disks moves.
    type: str
    choices: [running, stopped, present, absent]
    default: running
  disks:
    description:
      - The disks to create before the domain is defined.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The file, an absolute path in a folder that exists. One of O(disks[].path) and
          O(disks[].pool) is required.
        type: path
      pool:
        description:
          - The storage pool of libvirt in which a volume is made, of the type C(rbd), C(logical) or
            C(zfs). O(xml) names it in a disk of the type V(volume). It is defined as a disk on the
            network with the servers and the secret of the pool, or as the block device that the
            volume is.
        type: str
      volume:
        description:
          - The name of the volume in O(disks[].pool), in which O(disks[].backing_file) is copied.
            In a pool of the type C(rbd) it is a clone, if that is a file of the cache of images. It
            begins with the uuid of the domain and a V(-), which proves the owner.
        type: str
      size_gb:
        description: The virtual size in GiB; by default the size of O(disks[].backing_file).
        type: int
      format:
        description: The format of the image.
        type: str
        choices: [qcow2, raw]
        default: qcow2
      backing_file:
        description:
          - The backing image of the disk, with O(disks[].format=qcow2). The image itself is not
            changed. The module refuses a disk that another domain writes to, running or shut off.
        type: path
      backing_format:
        description: The format of O(disks[].backing_file); by default its real format.
        type: str
  seed:
    description:
      - A small image, mostly a cloud-init seed, to write before the domain is defined.
    type: dict
    suboptions:
      path:
        description: The file, an absolute path in a folder that exists.
        type: path
        required: true
      content_b64:
        description: Its content, in Base64.
        type: str
        required: true
  autostart:
    description:
      - Start the domain with its hypervisor. Without this option the setting is not changed.
    type: bool
  mdevs:
    description:
      - Mediated devices, such as virtual GPUs, of a domain that this call defines. The module makes
        each missing device before it defines the domain, so that the device comes back with the
        hypervisor (libvirt 7.3, C(mdevctl)). O(xml) names them by their uuids.
      - If a step fails, and with O(state=absent), the module removes the devices that the
        collection has made, which their uuids prove, unless another domain names them. Others are
        kept.
    type: list
    elements: dict
    default: []
    suboptions:
      uuid:
        description: Its uuid.
        type: str
        required: true
      parent:
        description: libvirt's name of the device that it is made of, such as V(pci_0000_84_00_0).
        type: str
        required: true
      type:
        description: Its type, such as V(nvidia-35).
        type: str
        required: true
  graphics_password:
    description:
      - The password of the graphical console of a domain that this call defines. It replaces a
        password in O(xml). libvirt keeps it on the hypervisor. It is in no result, no diff and no
        log. VNC takes 8 bytes at most.
    type: str
  timeout:
    description:
      - Seconds for a start or a shutdown.
    type: int
    default: 60
  force:
    description:
      - With O(state=stopped) and O(state=absent), cut the power of a domain that does not shut down
        in time.
    type: bool
    default: false
  remove_disks:
    description:
      - With O(state=absent), also remove the domain's writable image files, volumes of storage
        pools that are files among them. Its read-only images and its UEFI variables are removed
        only if their name proves that they belong to it, by the whole uuid, as the seed
        C(NAME-UUID8-seed.iso) of P(drover.compute.place#role), or as C(NAME_VARS.fd) in libvirt's
        own folder.
      - Files that another domain uses, running or shut off, are kept, and also the backing files of
        any image in the folders of disks and storage pools. Shareable files, devices, links, locked
        files, and the backing files of the domain's own images are kept too. If the users of a file
        are not known, the module keeps the file.
      - The module removes the images before the definition. So the next run finishes the removal of
        a killed run.
    type: bool
    default: false
  used_elsewhere:
    description:
      - Files that domains of other hypervisors use or may use. With O(remove_disks) they and their
        backing files are kept. No new domain gets one of them as a writable disk. Each is a path,
        or a mapping with C(path), and C(who) and C(how) for the reason.
    type: list
    elements: raw
    default: []
  looked_up:
    description:
      - Paths that no domain of another hypervisor uses, as the caller has checked. With this option
        a new domain gets no other writable files. If a path leads through symbolic links to another
        file, the module fails before it begins, with C(links), a mapping of the paths to the real
        files.
    type: list
    elements: str
  vcpus:
    description:
      - Redefine an existing domain with so many vCPUs. It must be shut off, or be shut off by
        O(state=stopped).
    type: int
  memory_mb:
    description:
      - Redefine an existing domain with so much memory, in MiB. It must be shut off, or be shut off
        by O(state=stopped).
    type: int
  flavor:
    description:
      - Write the name of this flavor into the metadata of an existing domain. An empty text removes
        it. The rule of O(vcpus) applies.
    type: str
  numa:
    description:
      - Redefine an existing domain with these pins, NUMA cells and huge pages, in the form of
        C(numa) of RV(domain). They replace its own. An empty mapping removes them. The rule of
        O(vcpus) applies.
    type: dict
  disk_gb:
    description:
      - Enlarge the first disk of an existing domain, so that its writable disks have so many GiB in
        total. The domain may run.
      - A disk is never made smaller. A smaller size is an error.
    type: int
  order:
    description:
      - A name of this order, any text. M(drover.compute._domain_order) can withdraw the order by
        it. A withdrawn order does nothing and fails.
    type: str
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.full
seealso:
  - module: drover.compute.hypervisor_info
  - module: drover.compute._domain_migration
"""

EXAMPLES = r"""
- name: An instance on libvirt's test driver
  hosts: localhost
  gather_facts: false
  vars:
    uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01
  tasks:
    - name: Define and start it
      drover.compute.domain:
        uri: test:///default
        uuid: "{{ uuid }}"
        xml: |
          <domain type='test'>
            <name>web-1</name>
            <uuid>{{ uuid }}</uuid>
            <memory unit='MiB'>64</memory>
            <os><type>hvm</type></os>
          </domain>

- name: An instance with a disk on the hypervisors
  hosts: hypervisors
  gather_facts: false
  tasks:
    - name: Create the disk from an image, define and start
      drover.compute.domain:
        name: web-1
        xml: "{{ lookup('ansible.builtin.template', 'domain.xml.j2') }}"
        disks:
          - path: /var/lib/libvirt/images/web-1.qcow2
            size_gb: 20
            backing_file: /var/lib/libvirt/images/debian-12.qcow2

    - name: Remove it and its disks
      drover.compute.domain:
        name: web-1
        state: absent
        force: true
        remove_disks: true
"""

RETURN = r"""
domain:
  description:
    - The domain as M(drover.compute.hypervisor_info) describes it, after the change. Null if it is
      absent.
    - In check mode, as far as it is known in advance.
  returned: success
  type: dict
  sample: {name: web-1, state: running, uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01, vcpus: 1,
    memory_mb: 64}
created_disks:
  description: The files that this call created, with the seed.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/libvirt/images/web-1.qcow2]
begun:
  description: True if a change was made and not undone.
  returned: failure of the module itself; if it is missing, this is not known
  type: bool
  sample: false
domain_left:
  description:
    - True if the domain is on the hypervisor after a failure. It is checked while no other call of
      the collection can work on the domain.
    - Null if libvirt does not answer, or another call works on it.
  returned: failure of the module itself
  type: bool
  sample: false
removed_disks:
  description: The files that this call removed.
  returned: success
  type: list
  elements: str
  sample: [/var/lib/libvirt/images/web-1.qcow2]
kept_disks:
  description: The files that O(remove_disks) has kept, each with C(path) and C(reason).
  returned: success
  type: list
  elements: dict
  sample: [{path: /srv/isos/debian-12.iso, reason: it is read-only and its name does not say that it
    is this instance's}]
"""


from ansible_collections.drover.compute.plugins.module_utils._changes.domain_change import (
    DomainChange,
)
from ansible_collections.drover.compute.plugins.module_utils._devices import mdevs as _mdevs
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule

DISK_SPEC = {
    "path": {"type": "path"},
    "pool": {"type": "str"},
    "volume": {"type": "str"},
    "size_gb": {"type": "int"},
    "format": {"type": "str", "choices": ["qcow2", "raw"], "default": "qcow2"},
    "backing_file": {"type": "path"},
    "backing_format": {"type": "str"},
}


SEED_SPEC = {
    "path": {"type": "path", "required": True},
    "content_b64": {"type": "str", "required": True, "no_log": True},
}


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "name": {"type": "str"},
            "uuid": {"type": "str"},
            "xml": {"type": "str"},
            "state": {
                "type": "str",
                "choices": ["running", "stopped", "present", "absent"],
                "default": "running",
            },
            "disks": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": DISK_SPEC,
                "required_one_of": [("path", "pool")],
                "mutually_exclusive": [("path", "pool")],
                "required_by": {"pool": ("volume", "size_gb")},
            },
            "seed": {"type": "dict", "options": SEED_SPEC},
            "autostart": {"type": "bool"},
            "mdevs": {"type": "list", "elements": "dict", "default": [], "options": _mdevs.SPEC},
            "graphics_password": {"type": "str", "no_log": True},
            "timeout": {"type": "int", "default": 60},
            "force": {"type": "bool", "default": False},
            "remove_disks": {"type": "bool", "default": False},
            "used_elsewhere": {"type": "list", "elements": "raw", "default": []},
            "looked_up": {"type": "list", "elements": "str"},
            "vcpus": {"type": "int"},
            "memory_mb": {"type": "int"},
            "flavor": {"type": "str"},
            "numa": {"type": "dict"},
            "disk_gb": {"type": "int"},
            "order": {"type": "str"},
        },
        required_one_of=[("name", "uuid", "xml")],
        supports_check_mode=True,
    )
    if module.params["timeout"] < 0:
        module.fail_json(
            msg=f"timeout is {module.params['timeout']} s: give 0 or more.", begun=False
        )
    module.carry_out(DomainChange)


if __name__ == "__main__":
    main()
