# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that modules which move instances share."""

from __future__ import annotations

import textwrap

#: The options of module_utils._migration.options.SPEC.
_OPTIONS = r"""
bandwidth_mib:
  description: At most so many MiB per second, of memory and of disks each, after a switch to post-copy too.
  type: int
parallel_connections:
  description: Send memory over so many connections at once, 2 or more. For networks that one connection cannot fill.
  type: int
auto_converge:
  description: Slow the guest's CPUs down when it writes to memory faster than it can be sent.
  type: bool
post_copy:
  description:
    - Begin the migration so that it can be switched over to post-copy, where the guest runs at the destination
      and fetches its memory from the source. With O({prefix}.on_timeout=post_copy) it is.
    - It always ends, but a guest that has been switched over needs both hosts and the network between them until it has.
    - QEMU needs userfaultfd at the destination (sysctl C(vm.unprivileged_userfaultfd=1) where it does not run as root).
  type: bool
tls:
  description:
    - Encrypt memory and copied disks between the two QEMUs. The hosts need certificates for it
      (C(migrate_tls_x509_cert_dir) in C(qemu.conf)), made out to their host names.
  type: bool
tunnelled:
  description:
    - Send memory through libvirt's own connection, which is encrypted by SSH mostly. Slower, and not for copied disks.
  type: bool
compression:
  description:
    - V(xbzrle) sends only what changed of a page that was sent before.
    - V(zlib) and V(zstd) compress pages on several connections, and need O({prefix}.parallel_connections) and libvirt 9.4.
  type: str
  choices: [xbzrle, zlib, zstd]
max_downtime_ms:
  description: For how many milliseconds the guest may stand still at the end of a live move; by default QEMU's own 300.
  type: int
timeout_per_gib:
  description:
    - Seconds that a live move may take for each GiB of memory and of each disk to copy, each of them counted as 2 GiB at least.
    - By default 800, as in Nova.
  type: int
on_timeout:
  description:
    - What is done with a live move that is not done by then. In each case it ends, and one host has the guest.
    - V(abort), the default, aborts it. The guest goes on at the source.
    - V(post_copy) switches it over to post-copy, which O({prefix}.post_copy) must allow. If that cannot be done
      in as much time again, it is aborted.
    - V(pause) pauses the guest, so that nothing changes any more. It goes on at the destination.
      If nothing more of it is sent for 60 seconds, it is aborted and goes on at the source.
    - V(shutdown) aborts it, shuts the guest down in good order, moves it cold and starts it at the destination. A guest that does
      not shut down within 180 seconds stays at the source, and one that cannot be moved then is started there again.
  type: str
  choices: [abort, post_copy, pause, shutdown]
copy_storage:
  description:
    - V(auto), the default, copies the disks that are on storage of their host only. A disk that is on shared storage which
      the destination does not see is refused, as it is to be mounted there.
    - V(never) refuses to move an instance with disks that would be copied.
    - V(always) also copies disks off shared storage that the destination does not see.
  type: str
  choices: [auto, never, always]
"""

#: What else a move has at the hypervisor that carries it out.
_MOVE = r"""
uuid:
  description: The uuid of the domain.
  type: str
  required: true
name:
  description: The name of the domain; the move is refused if it has another.
  type: str
destination:
  description: The name of the destination, for messages.
  type: str
  required: true
destination_uri:
  description: How the source reaches the destination's libvirt; by default C(qemu+ssh://root@DESTINATION/system).
  type: str
migrate_uri:
  description: Where the guest's memory is sent, such as C(tcp://10.0.0.2); by default what the destination offers.
  type: str
live:
  description: Whether to move it while it runs; by default it is if it does.
  type: bool
migration:
  description:
    - What the caller calls this migration, such as its uuid in the store.
    - A move with the same that was aborted is not begun anew; one with another is.
  type: str
begin:
  description:
    - Whether to begin it where that has not been done. Otherwise it is only found out what became of it, and one that was never
      begun ends as V(failed).
  type: bool
  default: true
will_stop:
  description: With O(check=true), that the domain runs and will be shut down before its cold move; it is no reason to refuse it then.
  type: bool
  default: false
autostart:
  description: Whether the domain starts with the destination's libvirt; by default as at the source.
  type: bool
used_elsewhere:
  description: Files that domains of other hypervisors use. They stay at the source whatever becomes of the move.
  type: list
  elements: str
  default: []
shared_folders:
  description: Folders of this host that are shared storage by the operator's word. What is in them counts as shared here.
  type: list
  elements: str
  default: []
devices_there:
  description:
    - By path, the worldwide name of a block device at the destination, or V(declared) where the operator declares that both hosts have
      the same one. A device that is not in it cannot be moved.
  type: dict
  default: {}
images_there:
  description:
    - What is known of the content of images at the destination, as C(images) of M(drover.compute.hypervisor_info). Of others their
      content is read over the network.
  type: list
  elements: dict
  default: []
"""


def _below(option: str, *texts: str) -> str:
    """A part of a fragment: the suboptions of an option, as the texts have them."""
    return f"  {option}:\n    suboptions:\n" + "".join(textwrap.indent(text.lstrip("\n"), " " * 6) for text in texts)


_START = (_MOVE, _OPTIONS.replace("{prefix}", "start[]"))


class ModuleDocFragment:
    """Documentation fragments ``drover.compute.migration_options``; with what else a move has, ``.moves``.

    One for each spec of ansible_border.conducting: ``.limits``, ``.drain``, ``.resize`` and ``.instances``.
    """

    # With their types, as ansible-test reads those without as constants.
    DOCUMENTATION: str = "options:\n" + _below("options", _OPTIONS.replace("{prefix}", "options"))
    MOVES: str = "options:\n" + _below("start", *_START) + _below("abort", *_START)
    LIMITS: str = r"""
options:
  max_migrations:
    description:
      - The most migrations at a time from one host. This limit and those below count all runs that work on the store, and so does
        C(max_moving) of a server group.
      - Up to three times as many are opened ahead and wait on the hypervisor for their turn, so that no time is lost between two moves; not
        where one of the two limits below is given.
      - The variable C(drover_max_migrations) sets it too.
    type: int
    default: 2
  max_migrations_per_destination:
    description: The most migrations at a time to one host. The variable C(drover_max_migrations_per_destination) sets it too.
    type: int
  max_migrations_overall:
    description: The most migrations at a time in all. The variable C(drover_max_migrations_overall) sets it too.
    type: int
  max_wait:
    description:
      - How long to wait, in seconds, while other runs have all that the limits allow and nothing of this one is under way. What then has
        not begun has failed, and the message names the runs in the way.
      - The variable C(drover_max_wait) sets it too.
    type: int
    default: 3600
  shutdown_timeout:
    description:
      - How long an instance that runs and moves cold may take to shut down, in seconds. After that it goes on running where it is and its
        move has failed.
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
      - The options of each migration, as O(drover.compute.migration#module:options). The variable C(drover_migration) sets it too.
    type: dict
    default: {}
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
    description: The instances. Each is a name, a uuid, or a mapping with C(name) and C(uuid), which must agree.
    type: list
    elements: raw
    required: true
  migration:
    description:
      - The options of each migration, as O(drover.compute.migration#module:options). The options of an instance's policy override them.
      - The variable C(drover_migration) sets it too.
    type: dict
    default: {}
"""
