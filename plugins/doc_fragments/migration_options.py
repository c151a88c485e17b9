# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that modules which move instances share."""

from __future__ import annotations

import textwrap

#: The options of module_utils._migration.options.SPEC.
_OPTIONS = r"""
bandwidth_mib:
  description: At most so many MiB per second, of memory and of disks each, after a switch to
    post-copy too.
  type: int
parallel_connections:
  description: Send memory over so many connections at once, 2 or more. Useful if one connection
    cannot use the whole bandwidth of the network.
  type: int
auto_converge:
  description: Slow down the guest's CPUs if it changes memory faster than the network can send it.
  type: bool
post_copy:
  description:
    - Begin the migration so that O({prefix}.on_timeout=post_copy) can switch it to post-copy. Then
      the guest runs at the destination and fetches its memory from the source.
    - Post-copy always ends, but until then the guest needs both hosts and the network between them.
    - QEMU needs userfaultfd at the destination (sysctl C(vm.unprivileged_userfaultfd=1) where it
      does not run as root).
  type: bool
tls:
  description:
    - Encrypt memory and copied disks between the two QEMUs. The hosts need certificates for it
      (C(migrate_tls_x509_cert_dir) in C(qemu.conf)), made out to their host names.
  type: bool
tunnelled:
  description:
    - Send memory through libvirt's own connection, which SSH usually encrypts. This is slower, and
      not possible for copied disks.
  type: bool
compression:
  description:
    - V(xbzrle) sends only the changed bytes of a page that was sent before.
    - V(zlib) and V(zstd) compress pages on several connections, and need
      O({prefix}.parallel_connections) and libvirt 9.4.
  type: str
  choices: [xbzrle, zlib, zstd]
max_downtime_ms:
  description: The maximum pause of the guest at the end of a live move, in milliseconds. The
    default is QEMU's, 300.
  type: int
timeout_per_gib:
  description:
    - The time limit of a live move, in seconds for each GiB of memory and of each copied disk.
      Memory and each disk count as at least 2 GiB.
    - By default 800, as in Nova.
  type: int
on_timeout:
  description:
    - The action at the time limit of a live move. In each case the move ends, and one host has the
      guest.
    - V(abort), the default, aborts the move. The guest continues at the source.
    - V(post_copy) switches the move to post-copy, which O({prefix}.post_copy) must allow. If this
      does not succeed within the same time again, the move is aborted.
    - V(pause) pauses the guest, so that its memory no longer changes. The guest continues at the
      destination. If no data is sent for 60 seconds, the move is aborted and the guest continues at
      the source.
    - V(shutdown) aborts the move, shuts the guest down cleanly, moves it cold and starts it at the
      destination. If the guest does not shut down within 180 seconds, it stays at the source. If
      the cold move fails, it is started there again.
  type: str
  choices: [abort, post_copy, pause, shutdown]
copy_storage:
  description:
    - V(auto), the default, copies only disks on local storage. If a disk is on shared storage that
      the destination does not see, the move is refused; mount the storage there.
    - V(never) refuses to move an instance with local disks.
    - V(always) also copies disks from shared storage that the destination does not see.
  type: str
  choices: [auto, never, always]
"""

#: The further options of a move at the hypervisor that carries it out.
_MOVE = r"""
uuid:
  description: The uuid of the domain.
  type: str
  required: true
name:
  description: The name of the domain. If the domain has another name, the move is refused.
  type: str
destination:
  description: The name of the destination, for messages.
  type: str
  required: true
destination_uri:
  description: The URI by which the source reaches the destination's libvirt; by default
    C(qemu+ssh://root@DESTINATION/system).
  type: str
host_uuids_there:
  description:
    - The uuids that libvirt of the destination may have, as C(host_uuid) of
      M(drover.compute.hypervisor_info). One with another uuid counts as not reached. Without them
      no uuid is compared.
  type: list
  elements: str
  default: []
migrate_uri:
  description: The URI to which the guest's memory is sent, such as C(tcp://10.0.0.2). By default
    the destination chooses it.
  type: str
live:
  description: True for a live move, false for a cold one. By default a running domain moves live.
  type: bool
migration:
  description:
    - The caller's id of this migration, such as its uuid in the store.
    - An aborted move does not begin again under the same id, but may begin under another one.
  type: str
begin:
  description:
    - True to begin the move if it has not begun. With false the module only returns its result; it
      is V(failed) for a move that has not begun.
  type: bool
  default: true
will_stop:
  description: With O(check=true), accept a running domain for a cold move, because it will be shut
    down before.
  type: bool
  default: false
autostart:
  description: True if the domain starts with the destination's libvirt; by default as at the
    source.
  type: bool
numa:
  description:
    - The pins, NUMA cells and huge pages that were claimed at the destination, as C(numa) of
      M(drover.compute.hypervisor_info). An empty mapping lets the domain float over all CPUs there.
      By default the domain keeps its own.
    - A domain that was bound to its host by hand is refused.
  type: dict
devices:
  description:
    - The devices that were claimed at the destination, in place of the devices that the domain has
      here. A C(pci) list of C(address), C(address_there), C(interface), C(interface_there) and
      C(live_migratable), and an C(mdevs) list of C(uuid) and C(there), which has the C(uuid),
      C(parent) and C(type) of the device that is made there.
    - A domain with another device of its host is refused.
  type: dict
resized:
  description:
    - True for a resize. When the domain has arrived, it gets exactly C(numa), with its size. Until
      then all of it is bound to all CPUs and NUMA cells that were claimed, whatever it was bound to
      before.
  type: bool
  default: false
used_elsewhere:
  description:
    - Files that domains of other hypervisors use or may use, as in M(drover.compute.domain). They
      are never deleted at the source.
  type: list
  elements: raw
  default: []
shared_folders:
  description: Folders of this host that the operator has declared as shared storage. Files in them
    count as shared.
  type: list
  elements: str
  default: []
devices_there:
  description:
    - A mapping of the path of a block device to its worldwide name at the destination, or to
      V(declared) if the operator has declared that both hosts have the same device. A domain with
      any other device cannot be moved.
  type: dict
  default: {}
file_systems_there:
  description:
    - A mapping of folders of the destination to a text for the file system that each is on. Without
      it, folders with equal free space and equal size are on one.
  type: dict
  default: {}
addresses_there:
  description: The addresses of the destination, as C(addresses) of
    M(drover.compute.hypervisor_info); empty where they are not known.
  type: list
  elements: str
  default: []
images_there:
  description:
    - Checksums of images at the destination, as C(images) of M(drover.compute.hypervisor_info).
      Other images are read over the network.
  type: list
  elements: dict
  default: []
"""


def _suboptions(option: str, *texts: str) -> str:
    """A part of a fragment: the suboptions of an option, as the texts have them."""
    return f"  {option}:\n    suboptions:\n" + "".join(
        textwrap.indent(text.lstrip("\n"), " " * 6) for text in texts
    )


_START = (_MOVE, _OPTIONS.replace("{prefix}", "start[]"))


class ModuleDocFragment:
    """Documentation fragments ``drover.compute.migration_options``; with the further options of a
    move, ``.moves``.

    One for each spec of ansible_border.conducting: ``.limits``, ``.drain``, ``.size``, ``.resize``
    and ``.instances``.
    """

    # These names have types, because ansible-test reads names without types as constants.
    DOCUMENTATION: str = "options:\n" + _suboptions(
        "options", _OPTIONS.replace("{prefix}", "options")
    )
    MOVES: str = "options:\n" + _suboptions("start", *_START) + _suboptions("abort", *_START)
    LIMITS: str = r"""
options:
  max_migrations:
    description:
      - The most migrations at a time from one host. All limits of migrations, and C(max_moving) of a server group, count the migrations of
        all runs in the store.
      - To lose no time between two moves, up to three times as many are opened in advance and wait in a queue on the hypervisor. This is
        not done if one of the two limits below is set.
      - The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
  max_migrations_per_destination:
    description: The most migrations at a time to one host, over all runs. The variable C(drover_max_migrations_per_destination) sets it too.
    type: int
  max_migrations_overall:
    description: The most migrations at a time in the fleet, over all runs. The variable C(drover_max_migrations_overall) sets it too.
    type: int
  max_wait:
    description:
      - The time limit, in seconds, of a run that has no move under way because other runs use up the limits. After it the remaining moves
        fail, and the message names those runs.
      - The variable C(drover_max_wait) sets it too.
    type: int
    default: 3600
  shutdown_timeout:
    description:
      - The time limit for the shutdown of a running instance before its cold move, in seconds. After it the move fails, and the instance
        continues to run at its source.
      - The variable C(drover_shutdown_timeout) sets it too.
    type: int
    default: 300
"""
    DRAIN: str = r"""
options:
  plan_only:
    description: Show the plan and stop. Check mode does the same.
    type: bool
    default: false
  solver_seconds:
    description:
      - The time limit of the exact solver, in seconds. It runs only if the other methods leave an instance without a destination, and needs
        the Python package highspy. V(0) turns it off.
      - The variable C(drover_solver_seconds) sets it too.
    type: float
    default: 0
  migration:
    description:
      - The options of each migration, as O(drover.compute._migration#module:options). The variable C(drover_migration) sets it too.
    type: dict
    default: {}
"""
    SIZE: str = r"""
options:
  flavor:
    description:
      - The new flavor, see M(drover.compute.flavor). A smaller disk is refused. A flavor without a disk leaves the disks unchanged.
    type: str
  vcpus:
    description:
      - The new number of vCPUs. Without a flavor, give this, O(memory_mb) or O(disk_gb), or several of them. The others stay as they are.
      - An instance that gets sizes keeps its flavor, so the extra specs of the flavor still apply.
    type: int
  memory_mb:
    description: The new memory in MiB, or a size such as V(8GiB).
    type: raw
  disk_gb:
    description: The new size of its disks together in GiB, or a size such as V(40GiB). The first disk grows. A smaller size is refused.
    type: raw
"""
    RESIZE: str = r"""
options:
  timeout:
    description: The time limit for the shutdown of an instance, and for its start, in seconds each.
    type: int
    default: 60
  force:
    description: Cut the power of a guest that does not shut down in time.
    type: bool
    default: false
  despite_policy:
    description:
      - Ignore the V(never), V(live) or V(cold) of an instance's policy. The migration options of the policy still apply.
      - A resize on the same host never needs this.
    type: bool
    default: false
"""
    INSTANCES: str = r"""
options:
  instances:
    description: The instances. Each is a name, a uuid, or a mapping with C(name) and C(uuid), which must agree. Give them or O(selector).
    type: list
    elements: raw
    default: []
  selector:
    description:
      - Instances with these labels, such as V(project=web,tier!=db,backup,!old). A comma means and. V(tier!=db) and V(!old) are also met
        by instances without that label.
      - Not together with names. A selector that selects none is an error, and so is an excluded key that no instance has.
    type: str
  migration:
    description:
      - The options of each migration, as O(drover.compute._migration#module:options). The options of an instance's policy override them.
      - The variable C(drover_migration) sets it too.
    type: dict
    default: {}
"""
