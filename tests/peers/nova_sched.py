# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's real filter scheduler, in process, over a fleet read from JSON.

  nova_sched.py --fleet fleet.json --requests req.json -o out.json \\
      [--mode none|capacity|placement] [--filters A,B] [--set GROUP.OPT=VALUE]

Nova's own code: HostState, HostManager (building host states from
ComputeNode, Service and Aggregate objects, filtering, weighing), every
filter and weigher, RequestSpec, the request pre-filters, and
SchedulerManager.select_destinations with its consume, claim and alternates
logic. Replaced are only the source of those objects (JSON, not a
database or RPC), the notifier, and - by mode - Placement:

  none       no Placement at all. Nova then checks NO capacity: since Train
             there is no Core, Ram or Disk filter (--load adds old ones).
  capacity   arithmetic stand-in: candidates and claims by the Placement
             capacity rule, plus aggregates, traits and in_tree.
  placement  the real Placement application (placement_peer.py) on --db,
             loaded with the fleet; claims are real PUT /allocations.

Each request sees the fleet as it is in the file; --carry lets every request
see what the earlier ones consumed, as if their builds had finished.
"""

import argparse
import collections
import datetime
import json
import logging
import os
import random
import statistics
import sys
import time
import traceback
import uuid
import warnings

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

import gen_fleet  # noqa: E402
import nova.conf  # noqa: E402
from nova import context as nova_context  # noqa: E402
from nova import (
    exception,  # noqa: E402
    objects,  # noqa: E402
    servicegroup,  # noqa: E402
)
from nova.compute import utils as compute_utils  # noqa: E402
from nova.objects import service as service_obj  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402
from nova.scheduler import manager as sched_manager  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

CONF = nova.conf.CONF
CELL = str(uuid.UUID(int=1))
DOWN_FOR = 100000


class Clock:
    """Accumulates wall and CPU seconds by name.

    All of this is one thread, so the CPU time is the wall time of an
    idle machine.
    """

    def __init__(self):
        self.clear()

    def clear(self):
        self.wall = collections.defaultdict(float)
        self.cpu = collections.defaultdict(float)

    def run(self, name, func, *args, **kw):
        start, cpu = time.perf_counter(), time.process_time()
        try:
            return func(*args, **kw)
        finally:
            self.cpu[name] += time.process_time() - cpu
            self.wall[name] += time.perf_counter() - start

    def report(self, which):
        spent = dict(getattr(self, which))
        scan = spent.get("filter", 0) + spent.get("weigh", 0)
        spent["filter_weigh"] = scan
        spent["with_host_states"] = scan + spent.get("host_states", 0)
        return {k: round(v * 1000, 3) for k, v in spent.items()}


# --- objects from JSON -----------------------------------------------------


def compute_node(index, h):
    arch = h.get("arch", "x86_64")
    hv = (h.get("hypervisor_type") or "QEMU").lower()
    specs = h.get("supported_instances") or [
        [arch, "qemu" if hv == "kvm" else hv, "hvm"],
        [arch, "kvm", "hvm"],
    ]
    stats = {
        "num_instances": str(h.get("num_instances", 0)),
        "io_workload": str(h.get("num_io_ops", 0)),
        "failed_builds": str(h.get("failed_builds", 0)),
    }
    stats.update({k: str(v) for k, v in (h.get("stats") or {}).items()})
    kw = {}
    if h.get("numa_topology"):
        kw["numa_topology"] = (
            h["numa_topology"]
            if isinstance(h["numa_topology"], str)
            else json.dumps(h["numa_topology"])
        )
    cn = objects.ComputeNode(
        id=index,
        uuid=gen_fleet.host_uuid(h),
        host=h["host"],
        hypervisor_hostname=h["node"],
        service_id=None,
        vcpus=h["vcpus"],
        vcpus_used=h["vcpus_used"],
        memory_mb=h["memory_mb"],
        memory_mb_used=h["memory_mb_used"],
        free_ram_mb=h["memory_mb"] - h["memory_mb_used"],
        local_gb=h["local_gb"],
        local_gb_used=h["local_gb_used"],
        free_disk_gb=h["local_gb"] - h["local_gb_used"],
        disk_available_least=h.get("disk_available_least"),
        cpu_allocation_ratio=h["cpu_allocation_ratio"],
        ram_allocation_ratio=h["ram_allocation_ratio"],
        disk_allocation_ratio=h["disk_allocation_ratio"],
        hypervisor_type=h.get("hypervisor_type", "QEMU"),
        hypervisor_version=h.get("hypervisor_version", 8000000),
        host_ip=h.get("host_ip"),
        cpu_info=h.get("cpu_info"),
        stats=stats,
        metrics=json.dumps(h.get("metrics") or []),
        supported_hv_specs=[objects.HVSpec.from_list(s) for s in specs],
        pci_device_pools=None,
        updated_at=None,
        **dict({"numa_topology": None}, **kw),
    )
    cn.obj_reset_changes()
    return cn


def service(index, h):
    beat = timeutils.utcnow(with_timezone=True)
    if not h.get("up", True):
        beat -= datetime.timedelta(seconds=DOWN_FOR)
    return objects.Service(
        id=index,
        host=h["host"],
        binary="nova-compute",
        topic="compute",
        disabled=not h.get("enabled", True),
        disabled_reason=None,
        forced_down=bool(h.get("forced_down")),
        last_seen_up=beat,
        created_at=beat,
        uuid=gen_fleet.named_uuid("service", h["host"]),
    )


def request_spec(req, ctxt):
    name = req.get("flavor", "m1")
    flavor = objects.Flavor(
        id=1,
        flavorid=name,
        name=name,
        vcpus=req["vcpus"],
        memory_mb=req["memory_mb"],
        root_gb=req["root_gb"],
        ephemeral_gb=req.get("ephemeral_gb", 0),
        swap=req.get("swap", 0),
        rxtx_factor=1.0,
        vcpu_weight=None,
        disabled=False,
        is_public=True,
        extra_specs=dict(req.get("extra_specs") or {}),
        description=None,
    )
    image = dict({"id": str(uuid.UUID(int=2))}, **(req.get("image") or {}))
    group = None
    if req.get("group"):
        g = req["group"]
        group = objects.InstanceGroup(
            uuid=g.get("uuid") or str(uuid.UUID(int=3)),
            id=1,
            name="g",
            policy=g["policy"],
            policies=[g["policy"]],
            hosts=list(g.get("hosts") or []),
            members=list(g.get("members") or []),
            rules={k: str(v) for k, v in (g.get("rules") or {}).items()},
        )
    dest = req.get("requested_destination")
    if dest:
        dest = objects.Destination(**dest)
    hints = {
        k: v if isinstance(v, list) else [v] for k, v in (req.get("scheduler_hints") or {}).items()
    }
    count = req.get("num_instances", 1)
    uuids = req.get("instance_uuids") or [
        gen_fleet.named_uuid("instance", f"{req.get('id', '')}/{n}") for n in range(count)
    ]
    if group:
        # The API adds the new instances to the group's members, and the
        # group's policy then applies among them too.
        group.members = group.members + uuids
    spec = objects.RequestSpec(
        ctxt,
        image=objects.ImageMeta.from_dict(image),
        flavor=flavor,
        numa_topology=None,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        num_instances=count,
        is_bfv=False,
        project_id=req.get("project_id", "p0"),
        user_id=req.get("user_id", "u0"),
        availability_zone=req.get("availability_zone"),
        ignore_hosts=list(req.get("ignore_hosts") or []),
        force_hosts=list(req.get("force_hosts") or []),
        force_nodes=list(req.get("force_nodes") or []),
        requested_destination=dest or None,
        retry=None,
        limits=None,
        instance_group=group,
        scheduler_hints=hints,
        instance_uuid=uuids[0],
        requested_resources=[],
    )
    return spec, uuids


# --- nova with its database cut away ---------------------------------------


class PeerHostManager(host_manager.HostManager):
    """HostManager whose cells, aggregates and instances come from a fleet.

    The overrides are where the real one reads a database, and thin timers.
    """

    def __init__(self, fleet, clock, stable=True):
        self.fleet = fleet["hosts"]
        self.clock = clock
        self.stable = stable
        self.carried = None
        self.trace = None
        super().__init__()
        self.set_fleet()
        for f in self.enabled_filters:
            self._count(f)
        if stable:
            # Nova's order comes from a directory listing, and adding
            # floats in another order can change the last bit of a weight.
            self.weighers.sort(key=lambda w: type(w).__name__)

    def _count(self, filter_):
        real = filter_.filter_all

        def filter_all(objs, spec):
            passed = list(real(objs, spec))
            if self.trace is not None:
                self.trace.append(
                    {"filter": type(filter_).__name__, "start": len(objs), "end": len(passed)}
                )
            return passed

        filter_.filter_all = filter_all

    def refresh_cells_caches(self):
        self.cells = {CELL: None}
        self.enabled_cells = []
        self.host_to_cell_uuid = {}

    def _init_aggregates(self):
        pass

    def _init_instance_info(self, computes_by_cell=None):
        pass

    def set_fleet(self):
        self.computes = [compute_node(i, h) for i, h in enumerate(self.fleet, 1)]
        self.by_uuid = {c.uuid: c for c in self.computes}
        self.services = {h["host"]: service(i, h) for i, h in enumerate(self.fleet, 1)}
        self.aggregates = objects.AggregateList(
            objects=[
                objects.Aggregate(
                    id=i,
                    uuid=gen_fleet.named_uuid("agg", name),
                    name=name,
                    hosts=a["hosts"],
                    metadata={k: str(v) for k, v in a["metadata"].items()},
                )
                for i, (name, a) in enumerate(
                    sorted(gen_fleet.fleet_aggregates({"hosts": self.fleet}).items()), 1
                )
            ]
        )
        self.update_aggregates(self.aggregates)
        self._reset_instances()

    def _reset_instances(self):
        self._instance_info = {
            h["host"]: {
                "updated": True,
                "instances": {u: objects.Instance(uuid=u) for u in h.get("instances") or ()},
            }
            for h in self.fleet
        }

    def fresh(self):
        """Undo the changes of consumption in shared objects."""
        self._reset_instances()
        now = timeutils.utcnow(with_timezone=True)
        for h in self.fleet:
            if h.get("up", True):
                self.services[h["host"]].last_seen_up = now

    def get_host_states_by_uuids(self, context, compute_uuids, spec_obj):
        if self.carried is not None:
            want = None if compute_uuids is None else set(compute_uuids)
            return iter([s for s in self.carried if want is None or s.uuid in want])
        if compute_uuids is None:
            computes = self.computes
        else:
            computes = [self.by_uuid[u] for u in compute_uuids if u in self.by_uuid]
        states = self.clock.run(
            "host_states",
            lambda: list(self._get_host_states(context, {CELL: computes}, self.services)),
        )
        if self.stable:
            # Nova walks a set here, so ties break by PYTHONHASHSEED.
            states.sort(key=lambda s: (s.host, s.nodename))
        return iter(states)

    def get_compute_nodes_by_host_or_node(self, ctxt, host, node, cell=None):
        return objects.ComputeNodeList(
            objects=[
                c
                for c in self.computes
                if (not host or c.host == host) and (not node or c.hypervisor_hostname == node)
            ]
        )

    def get_filtered_hosts(self, hosts, spec_obj, index=0):
        hosts = self.clock.run("candidates", list, hosts)
        return self.clock.run("filter", super().get_filtered_hosts, hosts, spec_obj, index)

    def get_weighed_hosts(self, hosts, spec_obj):
        weighed = self.clock.run("weigh", super().get_weighed_hosts, hosts, spec_obj)
        self.last_weighed = weighed
        return weighed


class PeerScheduler(sched_manager.SchedulerManager):
    def __init__(self, hosts, client):
        self.host_manager = hosts
        self.client = client
        self.servicegroup_api = servicegroup.API()
        self.notifier = _Mute()
        self.weighed = []
        self.undo = []

    @property
    def placement_client(self):
        return self.client

    def _get_sorted_hosts(self, spec_obj, host_states, index):
        self.host_manager.last_weighed = []
        out = super()._get_sorted_hosts(spec_obj, host_states, index)
        self.weighed.append(self.host_manager.last_weighed)
        return out

    def _consume_selected_host(self, selected_host, spec_obj, instance_uuid=None):
        self.undo.append(
            (selected_host, dict(selected_host.__dict__), dict(selected_host.instances))
        )
        super()._consume_selected_host(selected_host, spec_obj, instance_uuid=instance_uuid)

    def settle(self, uuids):
        """The builds are done: no longer I/O, but instances of their host."""
        for uuid_, (host, _state, _) in zip(uuids, self.undo):
            host.num_io_ops -= 1
            host.instances.setdefault(uuid_, objects.Instance(uuid=uuid_))

    def roll_back(self):
        """A failed batch: nova would refresh these from the database."""
        for host, state, instances in reversed(self.undo):
            host.__dict__.update(state)
            host.instances.clear()
            host.instances.update(instances)


class _Mute:
    def info(self, *args, **kw):
        pass


class CapacityClient:
    """Arithmetic stand-in for the placement report client."""

    def __init__(self, fleet):
        self.topo = gen_fleet.fleet_topology(fleet)
        self.reset()

    def reset(self):
        self.used = {p["uuid"]: dict.fromkeys(p["inventories"], 0) for p in self.topo["providers"]}
        by_name = {p["name"]: p["uuid"] for p in self.topo["providers"]}
        for a in self.topo["allocations"]:
            for name, res in a["allocations"].items():
                for rc, n in res.items():
                    self.used[by_name[name]][rc] += n
        self.inventories = {p["uuid"]: p["inventories"] for p in self.topo["providers"]}
        self.claims = {}

    def _fits(self, rp, resources):
        for rc, n in resources.items():
            i = self.inventories[rp].get(rc)
            if not i or n > i["max_unit"] or n < i["min_unit"]:
                return False
            if n % i["step_size"]:
                return False
            if self.used[rp][rc] + n > int((i["total"] - i["reserved"]) * i["allocation_ratio"]):
                return False
        return True

    def get_allocation_candidates(self, context, request):
        group = request.get_request_group(None)
        resources = request.merged_resources()
        required = group.required_traits | request._root_required
        forbidden = group.forbidden_traits | request._root_forbidden
        reqs, summaries = [], {}
        for p in self.topo["providers"]:
            if request._limit and len(reqs) >= request._limit:
                break
            traits, aggs = set(p["traits"]), set(p["aggregates"])
            if "in_tree" in group and group.in_tree and group.in_tree != p["uuid"]:
                continue
            if required - traits or forbidden & traits:
                continue
            if any(not aggs & set(any_of) for any_of in group.aggregates):
                continue
            if aggs & set(group.forbidden_aggregates):
                continue
            if self._fits(p["uuid"], resources):
                reqs.append(
                    {
                        "allocations": {p["uuid"]: {"resources": dict(resources)}},
                        "mappings": {"": [p["uuid"]]},
                    }
                )
                summaries[p["uuid"]] = {}
        return reqs, summaries, "1.36"

    def claim_resources(
        self,
        ctx,
        consumer,
        alloc_req,
        project_id,
        user_id,
        allocation_request_version=None,
        consumer_generation=None,
    ):
        for rp, a in alloc_req["allocations"].items():
            if not self._fits(rp, a["resources"]):
                return False
        self._add(alloc_req, 1)
        self.claims[consumer] = alloc_req
        return True

    def _add(self, alloc_req, sign):
        for rp, a in alloc_req["allocations"].items():
            for rc, n in a["resources"].items():
                self.used[rp][rc] += sign * n

    def delete_allocation_for_instance(self, context, consumer, **kw):
        self._add(self.claims.pop(consumer), -1)


class Adapter:
    """Looks like a keystoneauth adapter to nova's report client."""

    def __init__(self, app, clock):
        self.app, self.clock = app, clock
        self.additional_headers = {}

    def _call(self, method, url, json=None, microversion=None, **kw):
        status, data, headers = self.clock.run(
            "placement_" + method.lower(), self.app.call, method, url, json, microversion
        )
        return _Response(status, data, headers)

    def get(self, url, **kw):
        return self._call("GET", url, **kw)

    def put(self, url, **kw):
        return self._call("PUT", url, **kw)

    def post(self, url, **kw):
        return self._call("POST", url, **kw)

    def delete(self, url, **kw):
        return self._call("DELETE", url, **kw)


class _Response:
    def __init__(self, status, data, headers):
        self.status_code, self._data, self.headers = status, data, headers
        self.text = "" if data is None else json.dumps(data)
        self.content = self.text.encode()

    def json(self):
        return self._data

    def __bool__(self):
        return self.status_code < 400


def real_placement(fleet, url, clock):
    import placement_peer
    from nova.scheduler.client import report

    app = placement_peer.PlacementApp(url)
    placement_peer.reset(app)
    placement_peer.load_bulk(app, gen_fleet.fleet_topology(fleet))
    return report.SchedulerReportClient(adapter=Adapter(app, clock)), app


def cut_database(aggregates):
    """The last few places where a request would reach a database or bus."""

    def by_metadata(context, key=None, value=None):
        return [
            a
            for a in aggregates
            if any(
                (key is None or k == key) and (value is None or v == value)
                for k, v in a.metadata.items()
            )
        ]

    objects.AggregateList.get_by_metadata = staticmethod(by_metadata)
    service_obj.get_minimum_version_all_cells = lambda *a, **kw: 999
    compute_utils.notify_about_scheduler_action = lambda *a, **kw: None


# --- running ---------------------------------------------------------------


def schedule(sched, clock, req, mode, alternates, top):
    ctxt = nova_context.RequestContext("u0", "p0", is_admin=True)
    spec, uuids = request_spec(req, ctxt)
    hosts = sched.host_manager
    clock.clear()
    sched.weighed, sched.undo = [], []
    hosts.trace = []
    out = {}
    try:
        if mode == "none":
            picked = clock.run(
                "total", sched._select_destinations, ctxt, spec, uuids, None, None, None, alternates
            )
        else:
            picked = clock.run(
                "total",
                sched.select_destinations,
                ctxt,
                spec_obj=spec,
                instance_uuids=uuids,
                return_objects=True,
                return_alternates=alternates,
            )
        out["chosen"] = [p[0].service_host for p in picked]
        if hosts.carried is not None:
            sched.settle(uuids)
        if alternates:
            out["alternates"] = [[s.service_host for s in p[1:]] for p in picked]
    except Exception as exc:
        cause = exc
        if getattr(exc, "exc_info", None):  # ExpectedException
            cause = exc.exc_info[1]
        sched.roll_back()
        out["chosen"] = []
        out["error"] = f"{type(cause).__name__}: {cause}"
        if not isinstance(cause, exception.NovaException):
            out["traceback"] = traceback.format_exc()  # a filter raised
    # The first instance's pass; later ones skip once-per-request filters.
    out["filters"] = hosts.trace[: len(hosts.enabled_filters)]
    out["passed"] = len(sched.weighed[0]) if sched.weighed else 0
    weighed = sched.weighed[0] if sched.weighed else []
    out["weighed"] = [
        {"host": w.obj.host, "node": w.obj.nodename, "weight": w.weight} for w in weighed[:top]
    ]
    if weighed:
        out["ties_for_first"] = sum(1 for w in weighed if w.weight == weighed[0].weight)
    out["ms"], out["cpu_ms"] = clock.report("wall"), clock.report("cpu")
    return out


def run(a):
    with open(a.fleet) as f:
        fleet = json.load(f)
    with open(a.requests) as f:
        requests = json.load(f)
    if isinstance(requests, dict):
        requests = requests["requests"]
    configure(a)
    clock = Clock()
    random.seed(a.seed)
    began = time.perf_counter()
    hosts = PeerHostManager(fleet, clock, a.stable)
    loaded = time.perf_counter() - began
    cut_database(hosts.aggregates)
    app = None
    if a.mode == "placement":
        client, app = real_placement(fleet, a.db, clock)
    else:
        client = CapacityClient(fleet)
    sched = PeerScheduler(hosts, client)
    if a.carry:
        hosts.carried = list(hosts.get_host_states_by_uuids(None, None, None))
    results = []
    for n, req in enumerate(requests):
        req.setdefault("id", str(n))
        runs = []
        for _ in range(a.repeat):
            if not a.carry:
                hosts.fresh()
                if a.mode == "capacity":
                    client.reset()
            runs.append(schedule(sched, clock, req, a.mode, a.alternates, a.top))
            if app and not a.carry:
                for u in req.get("instance_uuids") or [
                    gen_fleet.named_uuid("instance", f"{req['id']}/{i}")
                    for i in range(req.get("num_instances", 1))
                ]:
                    app.call("DELETE", "/allocations/" + u)
        out = runs[0]
        out["index"] = n
        if a.repeat > 1:
            for which in ("ms", "cpu_ms"):
                keys = set().union(*(r[which] for r in runs))
                columns = {k: [r[which].get(k, 0.0) for r in runs] for k in keys}
                out[which] = {k: round(statistics.median(v), 3) for k, v in columns.items()}
                out["min_" + which] = {k: min(v) for k, v in columns.items()}
            out["runs"] = a.repeat
        results.append(out)
    totals = collections.Counter()
    for r in results:
        totals["scheduled"] += len(r["chosen"])
        totals["failed_requests"] += bool(r.get("error"))
    return {
        "mode": a.mode,
        "carry": a.carry,
        "hosts": len(fleet["hosts"]),
        "enabled_filters": [type(f).__name__ for f in hosts.enabled_filters],
        "weighers": {type(w).__name__: _multiplier(w) for w in hosts.weighers},
        "build_objects_s": round(loaded, 3),
        "totals": dict(totals),
        "results": results,
    }


def _multiplier(weigher):
    try:
        return weigher.weight_multiplier(_NoAggregates)
    except Exception:
        return None


class _NoAggregates:
    aggregates = ()


def configure(a):
    CONF([], project="nova", default_config_files=[], default_config_dirs=[])
    for path in a.extra_path or ():
        sys.path.append(path)
    fs = "filter_scheduler"
    CONF.set_override("host_subset_size", 1, group=fs)
    CONF.set_override("shuffle_best_same_weighed_hosts", False, group=fs)
    if a.filters is not None:
        CONF.set_override("enabled_filters", [f for f in a.filters.split(",") if f], group=fs)
    if a.load:
        CONF.set_override(
            "available_filters", ["nova.scheduler.filters.all_filters"] + a.load, group=fs
        )
    if a.weighers is not None:
        CONF.set_override(
            "weight_classes",
            [w if "." in w else "nova.scheduler.weights." + w for w in a.weighers.split(",") if w],
            group=fs,
        )
    for item in a.set or ():
        key, _, value = item.partition("=")
        group, _, name = key.rpartition(".")
        opt = CONF._get_opt_info(name, group or fs)["opt"]
        CONF.set_override(name, opt.type(value), group=group or fs)
    objects.register_all()


def main(argv=None):
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("--fleet", required=True)
    ap.add_argument("--requests", required=True)
    ap.add_argument("--mode", default="capacity", choices=("none", "capacity", "placement"))
    ap.add_argument("--db", default="sqlite:///nova_sched.db")
    ap.add_argument("--filters", help="enabled filters, in order")
    ap.add_argument(
        "--weighers",
        help="module.Class under nova.scheduler.weights, or full dotted names; default: all",
    )
    ap.add_argument(
        "--set",
        action="append",
        metavar="[GROUP.]OPT=VALUE",
        help="any nova option; GROUP defaults to filter_scheduler",
    )
    ap.add_argument(
        "--load",
        action="append",
        metavar="MODULE.CLASS",
        help="make an out-of-tree filter available",
    )
    ap.add_argument("--extra-path", action="append")
    ap.add_argument("--carry", action="store_true")
    ap.add_argument("--alternates", action="store_true")
    ap.add_argument("--repeat", type=int, default=1)
    ap.add_argument("--top", type=int, default=20)
    ap.add_argument("--seed", default="0")
    ap.add_argument(
        "--hash-order",
        dest="stable",
        action="store_false",
        help="keep nova's own (hash) order among equal weights",
    )
    ap.add_argument("-o", "--out", default="-")
    a = ap.parse_args(argv)
    data = run(a)
    out = sys.stdout if a.out == "-" else open(a.out, "w")
    json.dump(data, out, indent=1, sort_keys=True)
    out.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
