# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The peers' nova_sched.py with cells and with images of the instances on hosts; same options, same
output.

    PYTHONPATH=tests/peers NOVA/bin/python tests/benchmarks/nova_more.py --fleet
    FLEET.json --requests REQUESTS.json ...

A host's ``cell`` is a uuid; its ``instance_images`` maps uuids of its instances to image
properties; a request's ``requested_destination`` may have ``cell`` and ``allow_cross_cell_move``.
The program replaces only Nova's reads of these from a database: CrossCellWeigher and
ImagePropertiesWeigher are Nova's.
"""

from __future__ import annotations

import contextlib
import sys

import nova_sched
from nova import context, objects

_request_spec = nova_sched.request_spec
#: Image properties by uuid of instance: the instances of the file and the later placed ones.
_images = {}


def request_spec(request, ctxt):
    fields = dict(request)
    where = dict(fields.get("requested_destination") or {})
    cell = where.pop("cell", None)
    if cell:
        where["cell"] = objects.CellMapping(uuid=cell)
    fields["requested_destination"] = where
    spec, uuids = _request_spec(fields, ctxt)
    for uuid in uuids:
        _images[uuid] = (fields.get("image") or {}).get("properties") or {}
    return spec, uuids


class HostManager(nova_sched.PeerHostManager):
    def set_fleet(self):
        for host in self.fleet:
            _images.update(host.get("instance_images") or {})
        super().set_fleet()

    def get_host_states_by_uuids(self, ctxt, compute_uuids, spec_obj):
        cells = {host["host"]: host.get("cell") or nova_sched.CELL for host in self.fleet}
        for state in super().get_host_states_by_uuids(ctxt, compute_uuids, spec_obj):
            state.cell_uuid = cells[state.host]
            yield state


def fill_metadata(instances):
    for instance in instances:
        instance.system_metadata = {
            f"image_{key}": str(value) for key, value in _images.get(instance.uuid, {}).items()
        }
        instance.image_ref = ""


def main():
    nova_sched.request_spec = request_spec
    nova_sched.PeerHostManager = HostManager
    objects.register_all()
    objects.CellMapping.get_by_uuid = staticmethod(
        lambda ctxt, uuid: objects.CellMapping(uuid=uuid)
    )
    objects.InstanceList.fill_metadata = fill_metadata
    context.target_cell = lambda ctxt, cell: contextlib.nullcontext(ctxt)
    return nova_sched.main()


if __name__ == "__main__":
    sys.exit(main())
