# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a look at the store finds, said once and again only when it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import event

CAPACITY, AUDIT, REBOOT = "capacity_below_one_loss", "audit_finding", "needs_reboot"
#: Of a finding of the audit, which is no more than information then.
INFORMATION = "information"


class FindingEvents:
    """Remembers what was said."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, ...], str] = {}

    def look(
        self,
        now: float,
        capacity: Mapping[str, Any] | None,
        findings: Iterable[Mapping[str, Any]],
        reboots: Mapping[str, str] | None = None,
    ) -> list[event.Event]:
        """Return the events of a new look.

        :param capacity: a CapacityPlan with its name, for the smallest flavor; None where nothing is to be counted.
        :param findings: of the audit.
        :param reboots: {host: why it needs a reboot}.
        """
        found: dict[tuple[str, ...], event.Event] = {}
        loss = (capacity or {}).get("with_loss")
        if capacity is not None and loss is not None and not loss["survives"]:
            found[(CAPACITY,)] = event.make(
                CAPACITY,
                now,
                f"If {loss['host']} is lost, its instances do not fit on the other hosts. To do: add a host, or make room "
                "(drover.compute.capacity, drover.compute.rebalance).",
                loss["host"],
            )
        for each in findings:
            if each["level"] != INFORMATION:
                key = (AUDIT, *(str(each[name]) for name in ("kind", "uuid", "provider", "resource")))
                found[key] = event.make(
                    AUDIT,
                    now,
                    f"{each['name'] or each['provider'] or each['uuid']}: {each['why'].rstrip('.')}. {each['advice'].rstrip('.')}.",
                    each["host"],
                    each["uuid"],
                    each["name"],
                    finding=each["kind"],
                )
        for host, why in (reboots or {}).items():
            sentence = f"{host} needs a reboot: {why}. To do: drover.compute.rolling_maintenance --limit {host}."
            found[(REBOOT, host)] = event.make(REBOOT, now, sentence, host)
        new = [made for key, made in found.items() if self._said.get(key) != made["sentence"]]
        self._said = {key: made["sentence"] for key, made in found.items()}
        return new
