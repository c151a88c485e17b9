# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The findings in the store, each reported once and again only after a change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._common.errors import as_sentence
from . import event

CAPACITY, AUDIT, REBOOT = "capacity_below_one_loss", "audit_finding", "needs_reboot"
#: The level of a finding of the audit that is information only.
INFORMATION = "information"


class FindingEvents:
    """A memory of the reported findings."""

    def __init__(self) -> None:
        self._said: dict[tuple[str, ...], str] = {}

    def look(
        self,
        now: float,
        capacity: Mapping[str, Any] | None,
        findings: Iterable[Mapping[str, Any]],
        reboots: Mapping[str, str] | None = None,
    ) -> list[event.Event]:
        """Return the events of a new check.

        :param capacity: a CapacityPlan with its name, for the smallest flavor; None if nothing was
            counted.
        :param findings: the findings of the audit.
        :param reboots: {host: the reason why it needs a reboot}.
        """
        events: dict[tuple[str, ...], event.Event] = {}
        loss = (capacity or {}).get("with_loss")
        if capacity is not None and loss is not None and not loss["survives"]:
            events[(CAPACITY,)] = event.make(
                CAPACITY,
                now,
                f"If {loss['host']} is lost, its instances do not fit on the other hosts. To do:"
                " add a host, or make room (drover.compute.capacity, drover.compute.rebalance).",
                loss["host"],
            )
        for finding in findings:
            if finding["level"] != INFORMATION:
                key = (
                    AUDIT,
                    *(str(finding[name]) for name in ("kind", "uuid", "provider", "resource")),
                )
                events[key] = event.make(
                    AUDIT,
                    now,
                    f"{finding['name'] or finding['provider'] or finding['uuid']}:"
                    f" {as_sentence(finding['why'])} {as_sentence(finding['advice'])}",
                    finding["host"],
                    finding["uuid"],
                    finding["name"],
                    finding=finding["kind"],
                )
        for host, why in (reboots or {}).items():
            sentence = (
                f"{host} needs a reboot: {why}. To do: drover.compute.rolling_maintenance --limit"
                f" {host}."
            )
            events[(REBOOT, host)] = event.make(REBOOT, now, sentence, host)
        new = [made for key, made in events.items() if self._said.get(key) != made["sentence"]]
        self._said = {key: made["sentence"] for key, made in events.items()}
        return new
