# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traits of a compute node's provider, from the standard names of os-traits."""

from __future__ import annotations

try:
    import os_traits
except ImportError:
    os_traits = None

from ansible_collections.drover.compute.plugins.plugin_utils.errors import require

# libvirt's feature names that os-traits spells otherwise; the rest follow the rule in from_cpu().
_ALIASES = {
    "pni": "SSE3",
    "aes": "AESNI",
    "sse4.1": "SSE41",
    "sse4.2": "SSE42",
    "pclmuldq": "CLMUL",
    "sha-ni": "SHA",
    "tbm": "TBM",
    "mpx": "MPX",
    "sgx": "SGX",
}


def from_cpu(arch, features):
    """The HW_CPU_X86_* traits of libvirt's CPU features (NOVA_SEMANTICS 6.2).

    :param features: names as libvirt reports them; those without a standard trait are left out.
    :returns: a set of trait names.
    """
    if arch not in ("x86_64", "i686"):
        return set()
    require("os-traits", os_traits)
    known = set(os_traits.get_traits("HW_CPU_X86_"))
    names = {_ALIASES.get(feature, feature).upper().replace("-", "_").replace(".", "") for feature in features}
    return {f"HW_CPU_X86_{name}" for name in names} & known
