#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: domain
short_description: Create, define, start, stop or remove one libvirt domain with its disks
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - One call creates the disks and the seed, defines the domain, starts it and checks that it runs. If a step
    fails, the call removes exactly the files and the domain that it has created.
  - A domain is identified by its uuid. A domain that is already defined is not defined again, and its disks are
    not changed.
  - No file is ever overwritten. An existing disk, left by a killed run, is accepted if its format,
    size and backing file are as requested and it has no data; a seed if its content is the same.
    The module refuses a path that another domain uses, even if no file exists there.
  - It looks at its own hypervisor only. If an operator has moved the domain to another host, O(state=running) starts it a second time. For
    an instance of the store use M(drover.compute.instance), which reads the other hosts first and refuses then.
options:
  name:
    description:
      - The name of the domain. With O(xml) it must be the name in it.
      - One of O(name), O(uuid) and O(xml) is required.
    type: str
  uuid:
    description:
      - The uuid of the domain. With O(xml) it must be the uuid in it, and is added if the XML has none.
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
        description: The file, an absolute path in a folder that exists. One of O(disks[].path) and O(disks[].pool) is required.
        type: path
      pool:
        description:
          - The storage pool of libvirt in which a volume is made, of the type C(rbd), C(logical) or C(zfs). O(xml) names it in a disk of the type
            V(volume). It is defined as a disk on the network with the servers and the secret of the pool, or as the block device that the volume is.
        type: str
      volume:
        description:
          - The name of the volume in O(disks[].pool), in which O(disks[].backing_file) is copied. In a pool of the type C(rbd) it is a
            clone, if that is a file of the cache of images. It begins with the uuid of the domain and a V(-), which proves the owner.
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
      - The password of the graphical console of a domain that this call defines. It replaces a password in O(xml). libvirt keeps it on the
        hypervisor. It is in no result, no diff and no log. VNC takes 8 bytes at most.
    type: str
  timeout:
    description:
      - Seconds for a start or a shutdown.
    type: int
    default: 60
  force:
    description:
      - With O(state=stopped) and O(state=absent), cut the power of a domain that does not shut down in time.
    type: bool
    default: false
  remove_disks:
    description:
      - With O(state=absent), also remove the domain's writable image files, volumes of storage pools that are files among them.
        Its read-only images and its UEFI variables are removed only if their name proves that they belong to it, by the whole
        uuid, as the seed C(NAME-UUID8-seed.iso) of P(drover.compute.place#role), or as C(NAME_VARS.fd) in libvirt's own folder.
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
      - Files that domains of other hypervisors use or may use. With O(remove_disks) they and their backing files are kept. No new domain gets
        one of them as a writable disk. Each is a path, or a mapping with C(path), and C(who) and C(how) for the reason.
    type: list
    elements: raw
    default: []
  looked_up:
    description:
      - Paths that no domain of another hypervisor uses, as the caller has checked. With this option a new domain gets no other writable
        files. If a path leads through symbolic links to another file, the module fails before it begins, with C(links), a mapping of the
        paths to the real files.
    type: list
    elements: str
  vcpus:
    description:
      - Redefine an existing domain with so many vCPUs. It must be shut off, or be shut off by O(state=stopped).
    type: int
  memory_mb:
    description:
      - Redefine an existing domain with so much memory, in MiB. It must be shut off, or be shut off by O(state=stopped).
    type: int
  flavor:
    description:
      - Write the name of this flavor into the metadata of an existing domain. An empty text removes it. The rule of O(vcpus) applies.
    type: str
  numa:
    description:
      - Redefine an existing domain with these pins, NUMA cells and huge pages, in the form of
        C(numa) of RV(domain). They replace its own. An empty mapping removes them. The rule of
        O(vcpus) applies.
    type: dict
  disk_gb:
    description:
      - Enlarge the first disk of an existing domain, so that its writable disks have so many GiB in total. The domain may run.
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
    - The domain as M(drover.compute.hypervisor_info) describes it, after the change. Null if it is absent.
    - In check mode, as far as it is known in advance.
  returned: success
  type: dict
  sample: {name: web-1, state: running, uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01, vcpus: 1, memory_mb: 64}
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
    - True if the domain is on the hypervisor after a failure. It is checked while no other call of the collection can work on the domain.
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
  sample: [{path: /srv/isos/debian-12.iso, reason: it is read-only and its name does not say that it is this instance's}]
"""

import base64
import binascii
import contextlib
import functools
import os
import signal
import stat
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils._devices import mdevs as _mdevs
from ansible_collections.drover.compute.plugins.module_utils._devices import resize
from ansible_collections.drover.compute.plugins.module_utils._disk_move import record as disk_moves
from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    files_of_start,
    is_source,
    nvram_path,
    parse_disk,
    parse_domain,
    with_password,
    without_passwords,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.texts import texts_of
from ansible_collections.drover.compute.plugins.module_utils._files import access
from ansible_collections.drover.compute.plugins.module_utils._files.problem import Problem
from ansible_collections.drover.compute.plugins.module_utils._host import offered
from ansible_collections.drover.compute.plugins.module_utils._host.domains import (
    domain_from_xml,
    read_domain,
)
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._images import (
    images,
    notes,
    rbd_images,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    host_name,
    libvirt,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._orders.unfinished import Unfinished
from ansible_collections.drover.compute.plugins.module_utils._ownership import ownership
from ansible_collections.drover.compute.plugins.module_utils._ownership.needs import (
    Needs,
    is_gone,
    look,
)
from ansible_collections.drover.compute.plugins.module_utils._storage import (
    backing,
    block_volumes,
    kinds,
    sources,
    volumes,
)
from ansible_collections.drover.compute.plugins.module_utils._storage.kinds import Source

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


class Stopped(Problem):
    """The error for a module that a signal ends. It first removes the files and the domain that it
    has created.
    """


class DomainChange:
    """One run of the module."""

    def __init__(self, module: AnsibleModule, conn: Any) -> None:
        self.module = module
        self.conn = conn
        self.params = module.params
        self.local = binding.is_local(module.params["uri"])
        self.made_files: list[str] = []
        self.links: dict[str, str] = {}
        self._made: list[ownership.Candidate] = []
        self.removed_files: list[str] = []
        self.kept_files: list[dict[str, str]] = []
        self.defined_here = False
        # True if a change was made and not undone.
        self.begun = False
        # True if the domain is on this hypervisor after a failure, read while no other call could
        # work on it; None if unknown.
        self.left: bool | None = None
        self._needs: Needs | None = None
        self._unfinished: Unfinished | None = None
        self.xml, self.uuid, self.name = self._identity()
        # The arguments are part of the result.
        self.params["xml"] = self.params["xml"] and without_passwords(self.params["xml"])
        if self.xml is not None and self.params["graphics_password"] is not None:
            try:
                self.xml = with_password(self.xml, self.params["graphics_password"])
            except ValueError as exc:
                raise LibvirtProblem(
                    f"The option graphics_password cannot be used: {exc}."
                ) from exc

    # -- the arguments -----------------------------------------------------------------------

    def _identity(self) -> tuple[str | None, str | None, str | None]:
        """Return the XML to define, the uuid and the name, each None if not given."""
        wanted_uuid, wanted_name, text = (
            self.params["uuid"],
            self.params["name"],
            self.params["xml"],
        )
        if wanted_uuid is not None:
            try:
                wanted_uuid = binding.canonical_uuid(wanted_uuid)
            except ValueError as exc:
                raise LibvirtProblem(f"{wanted_uuid!r} is not a uuid.") from exc
        if text is None:
            return None, wanted_uuid, wanted_name
        try:
            parsed = parse_domain(text)
        except ValueError as exc:
            raise LibvirtProblem(f"The option xml is {exc}.") from exc
        if not parsed["name"]:
            raise LibvirtProblem("The option xml has no <name>: give the domain one.")
        if wanted_name is not None and wanted_name != parsed["name"]:
            raise LibvirtProblem(
                f"The option name is {wanted_name!r} but the XML is of {parsed['name']!r}: make them the same."
            )
        own = parsed["uuid"]
        if own is not None:
            try:
                own = binding.canonical_uuid(own)
            except ValueError as exc:
                raise LibvirtProblem(
                    f"The uuid {own!r} in the XML of {parsed['name']} is not a uuid."
                ) from exc
            if wanted_uuid is not None and own != wanted_uuid:
                raise LibvirtProblem(
                    f"The option uuid is {wanted_uuid} but the XML is of {own}: make them the same."
                )
        elif wanted_uuid is not None:
            root = parse(text)
            for empty in root.findall("uuid"):
                root.remove(empty)
            ET.SubElement(root, "uuid").text = wanted_uuid
            text = ET.tostring(root, encoding="unicode")
        return text, own or wanted_uuid, parsed["name"]

    def find(self) -> Any:
        """Return the domain; None if it does not exist.

        :raises LibvirtProblem: another domain has its uuid or name.
        """
        by_uuid = power.find(self.conn, uuid=self.uuid) if self.uuid else None
        by_name = power.find(self.conn, name=self.name) if self.name else None
        if by_uuid is not None and self.name and by_uuid.name() != self.name:
            raise LibvirtProblem(
                f"The uuid {self.uuid} belongs to the domain {by_uuid.name()!r} on {host_name()}, not to {self.name!r}: "
                "correct the uuid or the name."
            )
        if self.uuid and by_name is not None and by_name.UUIDString() != self.uuid:
            raise LibvirtProblem(
                f"A domain named {self.name!r} with another uuid ({by_name.UUIDString()}, not {self.uuid}) exists on {host_name()}: "
                "choose another name, or remove that domain first."
            )
        return by_uuid if by_uuid is not None else by_name

    # -- the states --------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """Bring the domain to the requested state and return the result of the module."""
        uuid, order = self._locked(), self.params["order"]
        with self._alone(uuid):
            try:
                if uuid is not None:
                    # After a withdrawal the domain may have left; the except clause reads it.
                    orders.refuse_withdrawn(Records(), uuid, self.name or uuid, order)
                return self._run()
            except (LibvirtProblem, images.ImageProblem, Stopped, libvirt.libvirtError) as exc:
                self.left = self._is_left()
                if (
                    self.params["state"] == "absent"
                    and not self.begun
                    and self.left is False
                    and _is_no_domain(exc)
                ):
                    # The domain was removed after the look, by an earlier run that Ansible gave up
                    # or by the operator.
                    return self._run()
                raise

    def _locked(self) -> str | None:
        """Return the uuid of the domain to lock, or None."""
        if self.module.check_mode:
            return None
        if self.uuid is not None:
            return self.uuid
        found = self.find()
        return found.UUIDString() if found is not None else None

    def _alone(self, uuid: str | None) -> contextlib.AbstractContextManager[None]:
        """Lock the domain against other calls of any run."""
        if uuid is None:
            return contextlib.nullcontext()
        return orders.alone(
            Records(), uuid, self.name or uuid, max(self.params["timeout"], orders.LEAST_PATIENCE)
        )

    def _is_left(self) -> bool | None:
        """Return True if the domain is on this hypervisor; None if libvirt does not answer."""
        try:
            return any(
                found.UUIDString() == self.uuid or (self.uuid is None and found.name() == self.name)
                for found in self.conn.listAllDomains(0)
            )
        except (LibvirtProblem, libvirt.libvirtError):
            return None

    def _run(self) -> dict[str, Any]:
        domain = self.find()
        if self.uuid is not None:
            self._unfinished = Unfinished(Records(), self.uuid, self.params["order"])
            if domain is not None and not self.module.check_mode:
                self._unfinished.end()
        before = self._picture(domain)
        if self.params["state"] == "absent":
            changed, after = self._absent(domain)
        else:
            changed, after = self._present(domain)
        result = {
            "changed": changed,
            "domain": after,
            "created_disks": self.made_files,
            "removed_disks": self.removed_files,
            "kept_disks": self.kept_files,
        }
        if self.module._diff:
            result["diff"] = {
                "before_header": self.name or self.uuid,
                "after_header": self.name or self.uuid,
                "before": before,
                "after": _text_of(after, self.made_files),
            }
        return result

    def _picture(self, domain: Any) -> str:
        return _text_of(read_domain(domain, self.local) if domain is not None else None, [])

    def _present(self, domain: Any) -> tuple[bool, dict[str, Any]]:
        state = self.params["state"]
        if domain is None:
            self.xml = volumes.with_sources(self.conn, self._definition())
            self._refuse_used_disks()
            self._refuse_not_offered()
            self._refuse_old_variables()
            _mdevs.check(self.conn, self.params["mdevs"], self.uuid)
        to_make = self._files_to_make() if domain is None else []
        self._refuse_links()
        current = power.state_of(domain) if domain is not None else "shutoff"
        reached = (
            state == "present"
            or (state == "running" and current in ("running", "blocked"))
            or (state == "stopped" and not (domain is not None and domain.isActive()))
        )
        if state == "stopped" and not reached:
            power.refuse_transient(domain)
            if self.params["timeout"] > 0:
                power.refuse_opposite(domain, "poweroff")
        autostart = self.params["autostart"]
        set_autostart = (
            autostart is not None and bool(domain is not None and domain.autostart()) != autostart
        )
        other_size, larger = self._other_size(domain), self._larger(domain)
        if other_size is not None and domain.isActive() and state != "stopped":
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} is {current}, and its vCPUs, memory and flavor are changed while it is shut off: "
                "shut it off first (drover.compute.instance_stop)."
            )
        changed = (
            domain is None
            or not reached
            or set_autostart
            or other_size is not None
            or larger is not None
        )
        if self.module.check_mode:
            self.made_files = [path for path, make in to_make]
            final = current if reached else {"running": "running", "stopped": "shutoff"}[state]
            if domain is None:
                return changed, domain_from_xml(self._definition(), final)
            return changed, dict(self._foretold(domain, other_size, larger), state=final)
        if changed:
            domain = self._change(domain, to_make, reached, set_autostart, other_size, larger)
        return changed, read_domain(domain, self.local)

    def _definition(self) -> str:
        """Return the XML of a domain that is missing."""
        if self.xml is None:
            raise LibvirtProblem(
                f"There is no domain {self.name or self.uuid} on {host_name()}: give its xml to have it defined."
            )
        return self.xml

    def _other_size(self, domain: Any) -> str | None:
        """Return the XML with the requested size, or None if the domain has it."""
        if domain is None or all(
            self.params[name] is None for name in ("vcpus", "memory_mb", "flavor", "numa")
        ):
            return None
        for name in ("vcpus", "memory_mb"):
            if self.params[name] is not None and self.params[name] < 1:
                raise LibvirtProblem(f"{name} is {self.params[name]}: give 1 or more.")
        text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        found = resize.resized(
            text,
            self.params["vcpus"],
            self.params["memory_mb"],
            self.params["flavor"],
            self.params["numa"],
        )
        if found is not None and not domain.isPersistent():
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} is transient, so nothing of it can be redefined: define it first."
            )
        if found is not None and not domain.isActive() and _has_saved_memory(domain):
            raise LibvirtProblem(
                f"{domain.name()} on {host_name()} has its memory saved, and would start with the old size: start it, or drop the "
                "image with virsh managedsave-remove."
            )
        return found

    def _larger(self, domain: Any) -> tuple[dict[str, Any], int] | None:
        """Return the disk to enlarge and its new size in bytes, or None."""
        if domain is None or self.params["disk_gb"] is None:
            return None
        if not self.local:
            raise LibvirtProblem(
                f"disk_gb works on the hypervisor only, and {self.params['uri']} is another machine: run the module there."
            )
        return resize.growth(read_domain(domain, self.local), self.params["disk_gb"])

    def _foretold(
        self, domain: Any, other_size: str | None, larger: tuple[dict[str, Any], int] | None
    ) -> dict[str, Any]:
        facts = read_domain(domain, self.local)
        if other_size is not None:
            foreseen = domain_from_xml(other_size, facts["state"])
            facts.update(
                {key: foreseen[key] for key in ("vcpus", "memory_mb", "numa", "metadata", "xml")}
            )
        if larger is not None:
            for disk in facts["disks"]:
                if disk["target"] == larger[0]["target"]:
                    disk["capacity_bytes"] = larger[1]
        return facts

    def _files_to_make(self) -> list[tuple[str, Callable[[], ownership.Candidate]]]:
        """Return ``[(path, function that creates it)]`` for the missing files."""
        found: list[tuple[str, Callable[[], ownership.Candidate]]] = []
        for disk in self.params["disks"]:
            if disk["pool"]:
                found += self._volume_to_make(disk)
                continue
            if disk["size_gb"] is not None and disk["size_gb"] < 1:
                raise images.ImageProblem(
                    f"The disk {disk['path']} cannot have {disk['size_gb']} GiB: size_gb is 1 or more."
                )
            if disk["backing_file"] and disk["format"] != "qcow2":
                raise images.ImageProblem(
                    f"The disk {disk['path']} is {disk['format']}, but only qcow2 can have a backing_file."
                )
            self._refuse_used(disk["path"])
            if disk["backing_file"]:
                self._refuse_written(disk)
            if images.check_disk(self.module, disk):
                found.append((disk["path"], functools.partial(images.make_disk, self.module, disk)))
        seed = self.params["seed"]
        if seed:
            self._refuse_used(seed["path"])
            try:
                content = base64.b64decode(seed["content_b64"], validate=True)
            except (binascii.Error, ValueError) as exc:
                raise images.ImageProblem(
                    f"The content of the seed {seed['path']} is not Base64: {exc}."
                ) from exc
            if images.check_seed(seed["path"], content):
                found.append(
                    (seed["path"], functools.partial(images.make_seed, seed["path"], content))
                )
        return found

    def _volume_to_make(
        self, disk: dict[str, Any]
    ) -> list[tuple[str, Callable[[], ownership.Candidate]]]:
        """Return the list of _files_to_make() for one volume."""
        place, image, digits = (disk["pool"], disk["volume"]), None, None
        if disk["backing_file"]:
            self._refuse_written({**disk, "path": "/".join(place)})
            image = images.check_source(
                self.module, disk["backing_file"], disk["backing_format"], disk["size_gb"]
            )
            digits = (
                notes.digits_of(disk["backing_file"])
                if rbd_images.can_clone(self.conn, place[0])
                else None
            )
        self._refuse_used_device(place)
        make: list[tuple[str, Callable[[], ownership.Candidate]]] = []
        is_clone = image is not None and self._is_clone(place)
        if volumes.check(
            self.conn,
            *place,
            disk["size_gb"],
            self.uuid,
            functools.partial(self._is_unfinished, place),
            is_clone,
        ):
            making = functools.partial(self._make_volume, place, disk["size_gb"])
            if image is not None and digits:
                making = functools.partial(self._clone_volume, place, disk, image, digits)
            make.append(("/".join(place), making))
        if image is not None:
            filling = functools.partial(self._fill_volume, place, disk, image)
            make.append((f"{'/'.join(place)} from {disk['backing_file']}", filling))
        return make

    def _refuse_used_device(self, place: tuple[str, str]) -> None:
        """Refuse a volume that is a block device if another domain names it, even if the device
        does not exist yet.
        """
        try:
            device = block_volumes.device_of(self.conn, *place)
            user = device and self._needs_of_others().user(device, look(device))
        except (OSError, access.Unresponsive) as exc:
            raise images.ImageProblem(
                f"The volume {'/'.join(place)} cannot be read on {host_name()}: {backing.reason_of(exc)}."
            ) from exc
        if user:
            raise images.ImageProblem(
                f"The device {device} is in use by {user[0]} on {host_name()}: choose another pool for {self.name}."
            )

    def _is_clone(self, place: tuple[str, str]) -> bool:
        return self._unfinished is not None and self._unfinished.is_clone(place)

    def _is_unfinished(self, place: tuple[str, str], key: str) -> bool:
        return self._unfinished is not None and self._unfinished.has(place, key)

    def _make_volume(self, place: tuple[str, str], size_gb: int) -> ownership.Candidate:
        if self._unfinished is not None:
            self._unfinished.begin(place)
        volumes.make(self.conn, *place, size_gb)
        if self._unfinished is not None:
            self._unfinished.made(place, block_volumes.key_of(self.conn, *place))
        return ownership.Candidate("/".join(place), by_use=True, volume=place)

    def _clone_volume(
        self, place: tuple[str, str], disk: dict[str, Any], image: str, digits: str
    ) -> ownership.Candidate:
        """Make a volume as a clone of its image, or make an empty volume for a copy of the image."""
        file = disk["backing_file"]
        try:
            source = rbd_images.bring(
                self.conn,
                place[0],
                digits,
                file,
                image,
                images.image_info(self.module, file)["virtual-size"],
            )
            if self._unfinished is not None:
                self._unfinished.begin(place, clone=True)
            rbd_images.clone(self.conn, *place, source)
        except LibvirtProblem as exc:
            made = self._make_volume(place, disk["size_gb"])
            self.module.warn(
                f"{file} is copied into {'/'.join(place)}, which takes longer and more space than a clone: {exc}"
            )
            return made
        return ownership.Candidate("/".join(place), by_use=True, volume=place)

    def _fill_volume(
        self, place: tuple[str, str], disk: dict[str, Any], image: str
    ) -> ownership.Candidate:
        """Copy the image into a volume, or give the clone of an image its size."""
        if self._unfinished is not None and self._is_clone(place):
            if rbd_images.finish(self.conn, *place, disk["size_gb"]):
                return ownership.Candidate("/".join(place), by_use=True, volume=place)
            # From here on the volume is no clone with all its data.
            self._unfinished.begin(place)
        volumes.fill(self.conn, *place, disk["backing_file"], image)
        return ownership.Candidate("/".join(place), by_use=True, volume=place)

    def _needs_of_others(self) -> Needs:
        if self._needs is None:
            self._needs = Needs(self.conn, self.uuid, self.params["used_elsewhere"])
        return self._needs

    def _refuse_used(self, path: str) -> None:
        """Refuse a path that another domain names, even if no file exists there."""
        try:
            sighting = look(path)
            user = self._needs_of_others().user(path, sighting)
        except (OSError, access.Unresponsive) as exc:
            raise images.ImageProblem(
                f"The path {path} cannot be read on {host_name()}: {backing.reason_of(exc)}."
            ) from exc
        if user:
            raise images.ImageProblem(
                f"The file {path} is in use by {user[0]} on {host_name()}: choose another path for {self.name}."
            )
        looked_up = self.params["looked_up"]
        if looked_up is not None and sighting.real not in looked_up:
            self.links[path] = sighting.real

    def _refuse_written(self, disk: dict[str, Any]) -> None:
        """Refuse a backing image that another domain writes to, because these writes would destroy
        the new disk.
        """
        image = disk["backing_file"]
        try:
            writer = self._needs_of_others().writer(image)
        except (OSError, access.Unresponsive) as exc:
            raise images.ImageProblem(
                f"The image {image} cannot be read on {host_name()}: {backing.reason_of(exc)}."
            ) from exc
        if writer:
            raise images.ImageProblem(
                f"The image {image} of {disk['path']} is, or is backed by, a file that the domain {writer} on {host_name()} writes to, which "
                "would destroy the new disk: use a copy of that image."
            )

    def _refuse_links(self) -> None:
        """Refuse symbolic links, because the caller has not checked if another hypervisor uses
        their real files.
        """
        if self.links:
            what = ", ".join(f"{path} is {real}" for path, real in sorted(self.links.items()))
            raise images.ImageProblem(
                f"On {host_name()} {what}, and whether another hypervisor uses that was not looked up."
            )

    def _refuse_used_disks(self) -> None:
        """Refuse writable disks of a new domain that another domain uses."""
        for element in parse(self._definition()).findall("devices/disk"):
            disk = parse_disk(element)
            if (
                not disk["source"]
                or disk["readonly"]
                or disk["shareable"]
                or disk["device"] != "disk"
            ):
                continue
            kind = kinds.of_disk(disk).source
            if kind is Source.FILE or (kind is Source.DEVICE and is_source(element)):
                self._refuse_used(disk["source"])
                if is_source(element):
                    self._refuse_missing(disk["source"])
                    self._refuse_other_names(disk["source"])
            elif disk.get("origin"):
                user = sources.user_of(self.conn, disk["origin"], self.uuid)
                if user:
                    raise LibvirtProblem(
                        f"The disk {disk['source']} of {self.name} is in use by the domain {user} on {host_name()}: two writers would destroy it."
                    )

    def _refuse_missing(self, path: str) -> None:
        """Refuse a disk that should exist and does not, because it is never made."""
        try:
            there = access.call(os.path.exists, path)
        except access.Unresponsive as exc:
            raise images.ImageProblem(str(exc)) from exc
        if not there:
            raise images.ImageProblem(
                f"The disk {path} of {self.name} is not on {host_name()}, and a disk with source is never made: mount or make it there, or "
                "correct its path."
            )

    def _refuse_other_names(self, path: str) -> None:
        """Refuse a file with another name (hard link), because a guest of any host may use the file
        by that name.
        """
        status = look(path).status
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
            raise images.ImageProblem(
                f"The disk {path} of {self.name} has {status.st_nlink} names (hard links) on {host_name()}, and a guest of any host may write to it by "
                "another one: give it a copy, or remove the other names."
            )

    def _refuse_not_offered(self) -> None:
        """Refuse hardware that this hypervisor does not have."""
        missing = offered.reasons(self.conn, self._definition(), host_name())
        if self.uuid is not None:
            missing += sources.missing_secrets(self.conn, self._definition(), host_name())
        if missing:
            raise LibvirtProblem(f"{self.name or self.uuid} cannot be built: {'; '.join(missing)}.")

    def _refuse_old_variables(self) -> None:
        """Refuse to start a new domain with the UEFI variables of an earlier domain. libvirt finds
        this file by the name of the domain.
        """
        text = self._definition()
        path = (
            nvram_path(text, self.local and binding.is_system(self.conn))
            if nvram_path(text) is None
            else None
        )
        if path is not None and os.path.lexists(path):
            raise LibvirtProblem(
                f"{self.name} cannot be built on {host_name()}: {path} has the UEFI variables of an earlier domain of this name. Move that file "
                "away, or give the instance another name."
            )

    def _change(
        self,
        domain: Any,
        to_make: list[tuple[str, Callable[[], ownership.Candidate]]],
        reached: bool,
        set_autostart: bool,
        other_size: str | None = None,
        larger: tuple[dict[str, Any], int] | None = None,
    ) -> Any:
        is_new, self.begun = domain is None, True
        try:
            for path, make in to_make:
                self._made.append(make())
                self.made_files.append(path)
            if domain is None:
                for each in self.params["mdevs"]:
                    _mdevs.make(self.conn, each)
                if self._unfinished is not None:
                    self._unfinished.define()
                domain = power.define(self.conn, self._definition())
                self.defined_here = True
                if self._unfinished is not None:
                    self._unfinished.end()
                self._note_files_of_start(domain)
            if set_autostart:
                domain.setAutostart(self.params["autostart"])
            if not reached and self.params["state"] == "stopped":
                power.stop(domain, self.params["timeout"], self.params["force"])
            if other_size is not None:
                domain = power.define(self.conn, other_size)
            if larger is not None:
                resize.grow(self.module, domain, *larger)
            if not reached and self.params["state"] == "running":
                power.start(domain, self.params["timeout"])
            return domain
        except BaseException as exc:
            left = self._undo(domain, is_new)
            # A change of an existing domain is not undone completely.
            self.begun = bool(left) or not is_new
            if isinstance(exc, libvirt.libvirtError):
                exc = LibvirtProblem(
                    f"{self.name or self.uuid} cannot be brought to {self.params['state']} on {host_name()}: {binding.text_of(exc)}."
                )
            if left:
                raise LibvirtProblem(
                    f"{exc} Not everything that this call created could be removed: {'; '.join(left)}."
                ) from exc
            raise exc

    def _note_files_of_start(self, domain: Any) -> None:
        """Record missing UEFI variables and logs of consoles as created by this call, because the
        first start creates them.
        """
        if not self.local:
            return
        text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        for path in files_of_start(text, binding.is_system(self.conn)):
            if not os.path.lexists(path):
                self._made.append(ownership.Candidate(path, by_use=True))

    def _undo(self, domain: Any, is_new: bool) -> list[str]:
        """Remove all objects that this call has created, the last first. Return descriptions of the
        rest.
        """
        if self.defined_here and domain is not None:
            try:
                if domain.isActive():
                    domain.destroy()
                ownership.undefine(domain, with_state=True)
            except libvirt.libvirtError as exc:
                # A domain that stays needs its files.
                return [f"the domain ({binding.text_of(exc)})"]
        try:
            mdevs = _mdevs.remove(
                self.conn,
                [each["uuid"] for each in self.params["mdevs"]] if is_new else (),
                self.uuid,
            )
        except libvirt.libvirtError as exc:
            return [f"its mediated devices ({binding.text_of(exc)})"]
        if mdevs:
            return [f"the mediated device {each['uuid']} ({each['reason']})" for each in mdevs]
        made = ownership.Ownership(self.conn, self.uuid, self.name, self._made[::-1])
        self.made_files, self._made = [], []
        try:
            made.sort_out()
            made.remove()
            if self._unfinished is not None and not made.kept:
                self._unfinished.end()
        except (OSError, libvirt.libvirtError) as exc:
            return [str(exc)]
        return [f"{each['path']} ({each['reason']})" for each in made.kept]

    def _absent(self, domain: Any) -> tuple[bool, None]:
        if domain is None:
            return False, None
        facts = read_domain(domain, self.local)
        self.name, self.uuid = facts["name"], facts["uuid"]
        copies = self._copies_left(domain)
        own, mdevs = self._own_files(domain), _mdevs.of_texts(texts_of(domain))
        if self.module.check_mode:
            self.removed_files = own.sort_out(locks=not domain.isActive())
            self.kept_files = own.kept + self._images_behind(facts, own.kept) + copies
            return True, None
        persistent = domain.isPersistent()
        try:
            if domain.isActive():
                # If it does not stop, its removal has not begun.
                power.stop(domain, self.params["timeout"], self.params["force"], keep=False)
        except libvirt.libvirtError as exc:
            # A transient domain vanishes when it stops.
            if persistent or not is_gone(exc):
                raise
        self.begun = True
        own.sort_out()
        # Do this before the definition is removed, so that the next run after a killed run still
        # finds the domain.
        try:
            own.remove()
        except OSError as exc:
            raise LibvirtProblem(
                f"The image {exc.filename} of {self.name} on {host_name()} cannot be removed: {exc.strerror}."
            ) from exc
        self.removed_files = own.removed
        self.kept_files = own.kept + self._images_behind(facts, own.kept) + copies
        for each in _mdevs.remove(self.conn, mdevs, self.uuid):
            # Discovery shows the device as free, and the next instance gets it.
            self.module.warn(
                f"The mediated device {each['uuid']} of {self.name} stays on {host_name()}: {each['reason']}."
            )
        try:
            if persistent:
                ownership.undefine(domain, with_state=True)
        except libvirt.libvirtError as exc:
            if not _is_no_domain(exc):
                raise
        return True, None

    def _copies_left(self, domain: Any) -> list[dict[str, str]]:
        """Return the copy that a move of a disk has made on another host. Only this domain still
        names the copy.

        :raises LibvirtProblem: the move was begun on this host and has not ended.
        """
        record = disk_moves.read(domain)
        if record is None:
            return []
        if record["host"] != host_name():
            return [
                {
                    "path": record["destination"],
                    "reason": f"a move of the disk {record['target']} that {record['host']} had begun has made it",
                }
            ]
        raise LibvirtProblem(
            f"The disk {record['target']} of {self.name} on {host_name()} is being moved to {record['destination']}, so {self.name} was not removed: nothing "
            "would name the copy any more. End the move first: ansible-playbook drover.compute.instance_disk_move "
            f"-e drover_instance={self.uuid} -e drover_disk={record['target']} -e drover_abort=true."
        )

    def _images_behind(
        self, facts: Mapping[str, Any], named: Iterable[Mapping[str, str]]
    ) -> list[dict[str, str]]:
        """Return the backing files of the removed disks in the folders of these disks, for example
        after a snapshot.

        :param named: the files that the result already names.
        """
        found = {each["path"]: "" for each in named}
        for disk in facts["disks"]:
            for layer in disk["chain"] or () if disk.get("path") in self.removed_files else ():
                if os.path.dirname(layer["path"]) == os.path.dirname(disk["path"]):
                    found.setdefault(
                        layer["path"],
                        f"the disk {disk['path']} is backed by it, and other images may be too",
                    )
        return [{"path": path, "reason": reason} for path, reason in found.items() if reason]

    def _own_files(self, domain: Any) -> ownership.Ownership:
        """Return the files of the domain, or none if its disks are kept."""
        if not self.params["remove_disks"]:
            return ownership.Ownership(self.conn, self.uuid, self.name, [])
        if not self.local:
            raise LibvirtProblem(
                f"remove_disks works on the hypervisor only, and {self.params['uri']} is another machine: run the module there."
            )
        candidates = ownership.candidates_of(self.conn, texts_of(domain))
        return ownership.Ownership(
            self.conn, self.uuid, self.name, candidates, self.params["used_elsewhere"]
        )


def _is_no_domain(error: Exception) -> bool:
    return binding.code_of(error) == libvirt.VIR_ERR_NO_DOMAIN


def _has_saved_memory(domain: Any) -> bool:
    try:
        return bool(domain.hasManagedSaveImage(0))
    except libvirt.libvirtError:
        return False


def _text_of(facts: dict[str, Any] | None, made_files: list[str]) -> str:
    """Return a domain as text for a diff."""
    if facts is None:
        return "state: absent\n"
    files = "".join(f"file: {path}\n" for path in made_files)
    return f"state: {facts['state']}\n{files}{facts['xml'].rstrip()}\n"


def _on_term(number: int, frame: object) -> None:
    raise Stopped(f"The module was ended by signal {number}.")


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
    change = None
    with module.hypervisor(lambda: _certain(change)) as conn, _stopped_by_term():
        change = DomainChange(module, conn)
        result = change.run()
    module.exit_json(**result)


@contextlib.contextmanager
def _stopped_by_term() -> Iterator[None]:
    """Raise Stopped at SIGTERM during the ``with`` block."""
    try:
        previous = signal.signal(signal.SIGTERM, _on_term)
    except ValueError:
        # Only the main thread gets signals.
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _certain(change: DomainChange | None) -> dict[str, Any]:
    """Return the certain facts after a failure."""
    if change is None:
        return {"begun": False, "domain_left": None}
    links = {"links": change.links} if change.links else {}
    return {"begun": change.begun, "domain_left": change.left, **links}


if __name__ == "__main__":
    main()
