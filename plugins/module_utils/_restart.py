# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Defining and starting a domain that another host had, and forgetting it where it is stale.

Private to the collection. No file that a domain uses is made, changed or removed.
"""

from __future__ import annotations

import os

from ansible_collections.drover.compute.plugins.module_utils import _libvirt, _power
from ansible_collections.drover.compute.plugins.module_utils._domain_xml import devices_that_hold, has_emulated_tpm
from ansible_collections.drover.compute.plugins.module_utils._libvirt import LibvirtProblem, host_name, libvirt

#: Seconds to wait for another call that works on the same domain.
PATIENCE = 120


def restart(conn, records, order, timeout, check_mode):
    """Bring one domain to the state that it is to have here.

    :param records: the locks of domains, one per uuid (_migration_record.Records).
    :param order: uuid, name, xml, running, autostart, files.
    :returns: a dict: uuid, name, status (restarted; there: it was so already; failed: nothing of it is
        left here; uncertain: it is not known what is here), state, message.
    """
    answer = {"uuid": order["uuid"], "name": order["name"], "status": "failed", "state": None, "message": ""}
    lock = None
    try:
        lock = records.lock(order["uuid"], PATIENCE)
        if lock is None:
            raise LibvirtProblem(f"another call works on {order['name']} on {host_name()} for {PATIENCE} s already")
        changed, answer["state"] = _bring(conn, order, timeout, check_mode)
        answer["status"] = "restarted" if changed else "there"
    except (LibvirtProblem, libvirt.libvirtError, OSError) as exc:
        answer["message"] = _libvirt.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
        answer["status"] = "failed" if lock is not None and _is_absent(conn, order["uuid"]) else "uncertain"
    finally:
        if lock is not None:
            os.close(lock)
    return answer


def _bring(conn, order, timeout, check_mode):
    domain = _power.find(conn, uuid=order["uuid"])
    if domain is not None and (domain.isActive() or not order["running"]):
        return False, _power.state_of(domain)
    if domain is None:
        _refuse(conn, order)
    if check_mode:
        return True, "running" if order["running"] else "shutoff"
    try:
        if domain is None:
            domain = _power.define(conn, order["xml"])
        if bool(domain.autostart()) != bool(order["autostart"]):
            domain.setAutostart(bool(order["autostart"]))
        if order["running"]:
            _power.start(domain, timeout)
        return True, _power.state_of(domain)
    except (LibvirtProblem, libvirt.libvirtError):
        # The room here was claimed for this domain alone, so what is here of it is of this evacuation.
        if domain is not None:
            if domain.isActive():
                domain.destroy()
            undefine(domain)
        raise


def _refuse(conn, order):
    """Raise LibvirtProblem where this host cannot have the domain, before anything is done."""
    where, name = host_name(), order["name"]
    twin = _power.find(conn, name=name)
    if twin is not None:
        raise LibvirtProblem(
            f"another domain named {name} ({twin.UUIDString()}) exists on {where}: rename or remove it"
        )
    missing = [path for path in order["files"] if not os.path.exists(path)]
    if missing:
        raise LibvirtProblem(f"{where} does not have {', '.join(missing)}: mount that storage there")
    held = devices_that_hold(order["xml"])
    if has_emulated_tpm(order["xml"]):
        held.append("its emulated TPM keeps its state in a folder of the dead host")
    if held:
        raise LibvirtProblem(f"{'; '.join(held)}: take it out of the XML and start it by hand")


def _is_absent(conn, uuid):
    try:
        return _power.find(conn, uuid=uuid) is None
    except libvirt.libvirtError:
        return False


def forget(conn, records, uuid, check_mode):
    """Remove a stale definition: one of a domain that was started elsewhere while this host was dead.

    :returns: a dict: uuid, status (forgotten, absent, running: never touched, failed), message.
    """
    answer = {"uuid": uuid, "status": "failed", "message": ""}
    lock = None
    try:
        lock = records.lock(uuid, PATIENCE)
        if lock is None:
            raise LibvirtProblem(f"another call works on {uuid} on {host_name()} for {PATIENCE} s already")
        domain = _power.find(conn, uuid=uuid)
        if domain is None:
            answer["status"] = "absent"
        elif domain.isActive():
            answer["status"] = "running"
        else:
            if not check_mode:
                if domain.autostart():
                    domain.setAutostart(False)
                undefine(domain)
            answer["status"] = "forgotten"
    except (LibvirtProblem, libvirt.libvirtError, OSError) as exc:
        answer["message"] = _libvirt.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
    finally:
        if lock is not None:
            os.close(lock)
    return answer


def undefine(domain):
    """Remove the definition alone: UEFI variables and the TPM's state may be the running domain's too."""
    simple = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    flags = (
        simple
        | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
        | libvirt.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM
        | getattr(libvirt, "VIR_DOMAIN_UNDEFINE_KEEP_TPM", 0)
    )
    try:
        domain.undefineFlags(flags)
    except libvirt.libvirtError as exc:
        if _libvirt.code_of(exc) not in (libvirt.VIR_ERR_INVALID_ARG, libvirt.VIR_ERR_NO_SUPPORT):
            raise
        domain.undefineFlags(simple)
