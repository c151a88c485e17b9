# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which storage pool a compute node's disk is, when other hosts see that pool too.

Data in, data out. See docs/shared-storage.md.
"""

from __future__ import annotations

import functools
import posixpath
import uuid

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError

# Of our own, so that no uuid made from the same text elsewhere is taken for one of these.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://drover.compute/sharing")
_LONGEST_ID = 1000


@functools.lru_cache(maxsize=1024)
def uuid_of(shared_id):
    """The uuid of a sharing provider and of its placement aggregate: the same in every discovery."""
    return str(uuid.uuid5(_NAMESPACE, shared_id))


def declared(value, where):
    """The operator's word on which pools are shared.

    :param value: the option shared_pools: None, a list of names of pools, or a mapping of a name to the
        id that the pool has on all hosts.
    :returns: dict name of the pool -> id.
    :raises DroverError: it is neither.
    """
    if value is None:
        return {}
    names = dict(zip(value, value)) if isinstance(value, list) and _all_texts(value) else value
    if not isinstance(names, dict) or not _all_texts([*names, *names.values()]):
        raise DroverError(
            f"{where}: shared_pools must be a list of names of storage pools, such as [nfs], or a mapping of a name "
            f"to an id that all hosts give the pool, such as nfs: rack1, not {value!r}."
        )
    return names


def _all_texts(values):
    return all(isinstance(value, str) and 0 < len(value) <= _LONGEST_ID for value in values)


def mark(pools, names):
    """The pools with the ids that the operator gave them, which go before what the host says."""
    return [
        {**pool, "shared_id": f"declared:{names[pool['name']]}"} if pool.get("name") in names else pool
        for pool in pools
    ]


def of_instances(storage, pools, instances_path):
    """The shared storage that the disks of the instances lie on.

    It is the pool with the longest path above the instances' path if that is shared, else the file
    system of the path.

    :param storage: hypervisor_info's facts of that name.
    :param pools: its pools, as mark() returns them.
    :returns: a dict: id, name (for people), total (GiB; None when a stopped pool does not tell), or None
        when the storage is this host's alone.
    """
    pool = _covering(pools, instances_path)
    total = storage.get("total_gb") or None
    if pool is not None and pool.get("shared_id"):
        stopped = pool.get("state", "running") not in ("running", "degraded")
        return {"id": pool["shared_id"], "name": pool["name"], "total": None if stopped else total}
    if storage.get("shared_id"):
        return {"id": storage["shared_id"], "name": storage["shared_id"].partition(":")[2], "total": total}
    return None


def _covering(pools, path):
    """The pool with the longest path at or above ``path``, or None."""
    if not path:
        return None
    path, best = posixpath.normpath(path), None
    for pool in pools:
        above = posixpath.normpath(pool["path"]).rstrip("/") if pool.get("path") else None
        if above is None or not (path + "/").startswith(above + "/"):
            continue
        if best is None or len(above) > len(best[0]):
            best = (above, pool)
    return best[1] if best else None


def unknown(pools, names, node):
    """Sentences about declared pools that a node does not have."""
    have = sorted(pool["name"] for pool in pools)
    return [
        f"Compute node {node}: shared_pools (drover_shared_pools) names the pool {name}, which the host does not have "
        f"(it has {', '.join(have) or 'none'}). Correct the name, or define the pool there."
        for name in sorted(set(names) - set(have))
    ]
