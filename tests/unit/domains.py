# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The domain that the role place makes of a definition, without a host."""

from __future__ import annotations

import jinja2

from ansible_collections.drover.compute.plugins.filter._disk_layout import disk_layout
from ansible_collections.drover.compute.plugins.filter._guest import guest
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check, identity
from ansible_collections.drover.compute.tests.unit import examples

TEMPLATE = examples.ROOT / "roles" / "place" / "templates" / "domain.xml.j2"
FOLDER = "/var/lib/libvirt/images"
UUID = "5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01"


def claim_of(definition, arch="x86_64", **more):
    """Return the claim of a checked definition, on a host with KVM."""
    definition = {"name": "web1", "uuid": UUID, "memory_mb": 64, **definition}
    (checked,) = check.instances([definition], lambda item: "fleet.yml")
    (resolved,) = identity.resolve([checked], [])
    return {**resolved, "host": "kvm1", "arch": arch, "domain_type": "kvm", **more}


def rendered(claim, seed=None, base="/images/web1-5f0c6a3e"):
    """Return the text that the role's template makes of a claim."""
    environment = jinja2.Environment(
        trim_blocks=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    environment.filters.update(
        {"drover.compute._guest": guest, "ternary": lambda value, yes, no: yes if value else no}
    )
    variables = {
        "place_claim": claim,
        "place_disks": disk_layout(
            claim["disks"], base, pools=claim.get("pools"), uuid=claim["uuid"]
        ),
        "place_seed": seed or {},
        "place_folder": FOLDER,
        "hostvars": {},
    }
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(variables)
