# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real OpenStack Placement WSGI application, in process, as a peer.

  placement_peer.py run --db sqlite:////tmp/p.db --topology topo.json \\
      --queries q.json [--claims claims.json] -o out.json
  placement_peer.py selftest --db sqlite:////tmp/self.db    (EMPTIES it)
  placement_peer.py race --db postgresql+psycopg2://...          (EMPTIES it)
  placement_peer.py bench-ac     --db URL [--topology T] --query QS ...
  placement_peer.py bench-claims --db URL [--topology T] --procs 8 ...

`run` answers every query and makes every claim, and writes results in a form
that two stores can be compared by: provider names for uuids, everything
sorted. --topology loads into an EMPTY database (--reset empties it first).

Loading goes through the HTTP API (each step is a real request, timed), or
with --bulk straight into the tables, for large fleets.

Claims: a JSON list of {"query": QS, "pick": index, "consumer": uuid} - claim
the pick-th normalised candidate - or {"consumer": uuid, "body": {...}} for a
literal PUT body; provider names may stand for uuids there.
"""

import argparse
import collections
import json
import logging
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import time
import uuid

PGDEPS = os.environ.get("PEERS_PGDEPS", "")
if PGDEPS and os.path.isdir(PGDEPS):
    sys.path.append(PGDEPS)  # psycopg2, not in the venv

logging.disable(logging.WARNING)

LATEST = "1.39"


class PlacementApp:
    """One placement application over one database URL (one per process)."""

    def __init__(self, url, microversion=LATEST, options=()):
        import webob
        from oslo_config import cfg
        from oslo_policy import opts as policy_opts
        from placement import conf as placement_conf
        from placement import db_api, deploy
        from placement.db.sqlalchemy import migration

        self._webob = webob
        self.microversion = microversion
        conf = cfg.ConfigOpts()
        placement_conf.register_opts(conf)
        policy_opts.set_defaults(conf, enforce_new_defaults=False)
        conf.set_override("connection", url, group="placement_database")
        conf([], project="placement", default_config_files=[], default_config_dirs=[])
        conf.set_override("auth_strategy", "noauth2", group="api")
        for group, name, value in options:
            conf.set_override(name, value, group=group)
        db_api.configure(conf)
        migration.create_schema()
        self.conf = conf
        self.app = deploy.loadapp(conf)
        self.requests = 0

    def call(self, method, path, body=None, microversion=None):
        """-> (status, parsed body or None, headers)"""
        req = self._webob.Request.blank(path, method=method)
        req.headers["x-auth-token"] = "admin"
        req.headers["accept"] = "application/json"
        req.headers["openstack-api-version"] = f"placement {microversion or self.microversion}"
        if body is not None:
            req.content_type = "application/json"
            req.body = json.dumps(body).encode()
        self.requests += 1
        resp = req.get_response(self.app)
        data = resp.body
        return (resp.status_int, json.loads(data) if data else None, resp.headers)

    def must(self, method, path, body=None, ok=(200, 201, 204)):
        status, data, _ = self.call(method, path, body)
        if status not in ok:
            raise RuntimeError(f"{method} {path} -> {status} {data}")
        return data


# --- loading ---------------------------------------------------------------


def ordered(providers):
    """Providers with every parent before its children."""
    by_name = {p["name"]: p for p in providers}
    by_uuid = {p["uuid"]: p for p in providers}
    done, out = set(), []

    def visit(p):
        if p["name"] in done:
            return
        if p.get("parent"):
            visit(by_name.get(p["parent"]) or by_uuid[p["parent"]])
        done.add(p["name"])
        out.append(p)

    for p in providers:
        visit(p)
    return out


def parent_uuid(p, by_name):
    parent = p.get("parent")
    return by_name.get(parent, parent) if parent else None


def load_api(app, topo):
    """Create a topology with API requests; -> seconds by step."""
    spent = collections.defaultdict(float)

    def timed(step, *args, **kw):
        start = time.perf_counter()
        try:
            return app.must(*args, **kw)
        finally:
            spent[step] += time.perf_counter() - start

    providers = ordered(topo["providers"])
    by_name = {p["name"]: p["uuid"] for p in providers}
    for rc in sorted(
        {rc for p in providers for rc in p["inventories"] if rc.startswith("CUSTOM_")}
    ):
        timed("classes", "PUT", "/resource_classes/" + rc)
    for trait in sorted(
        {t for p in providers for t in p["traits"] if t.startswith("CUSTOM_")}
        | set(topo.get("traits", ()))
    ):
        timed("traits", "PUT", "/traits/" + trait)
    for p in providers:
        url = "/resource_providers"
        got = timed(
            "provider",
            "POST",
            url,
            {"uuid": p["uuid"], "name": p["name"], "parent_provider_uuid": parent_uuid(p, by_name)},
        )
        gen, url = got["generation"], url + "/" + p["uuid"]
        if p["inventories"]:
            gen = timed(
                "inventory",
                "PUT",
                url + "/inventories",
                {"resource_provider_generation": gen, "inventories": p["inventories"]},
            )["resource_provider_generation"]
        if p["aggregates"]:
            gen = timed(
                "aggregates",
                "PUT",
                url + "/aggregates",
                {"resource_provider_generation": gen, "aggregates": p["aggregates"]},
            )["resource_provider_generation"]
        if p["traits"]:
            timed(
                "traits",
                "PUT",
                url + "/traits",
                {"resource_provider_generation": gen, "traits": p["traits"]},
            )
    for a in topo.get("allocations", ()):
        timed("allocation", "PUT", "/allocations/" + a["consumer"], allocation_body(a, by_name))
    return dict(spent, total=sum(spent.values()))


def allocation_body(a, by_name):
    return {
        "allocations": {
            by_name.get(n, n): {"resources": res} for n, res in a["allocations"].items()
        },
        "project_id": a.get("project_id", "p0"),
        "user_id": a.get("user_id", "u0"),
        "consumer_type": a.get("consumer_type", "INSTANCE"),
        "consumer_generation": None,
    }


def load_bulk(app, topo):
    """Insert a topology into placement's tables without the API."""
    from placement import db_api
    from placement.db.sqlalchemy import models as m
    from placement.handlers import inventory

    start = time.perf_counter()
    for rc in sorted(
        {rc for p in topo["providers"] for rc in p["inventories"] if rc.startswith("CUSTOM_")}
    ):
        app.must("PUT", "/resource_classes/" + rc)
    for trait in sorted(
        {t for p in topo["providers"] for t in p["traits"] if t.startswith("CUSTOM_")}
    ):
        app.must("PUT", "/traits/" + trait)
    providers = ordered(topo["providers"])
    ids = {p["uuid"]: n for n, p in enumerate(providers, 1)}
    by_name = {p["name"]: p["uuid"] for p in providers}
    roots, rows = {}, []
    for p in providers:
        parent = parent_uuid(p, by_name)
        roots[p["uuid"]] = roots[parent] if parent else ids[p["uuid"]]
        rows.append(
            {
                "id": ids[p["uuid"]],
                "uuid": p["uuid"],
                "name": p["name"],
                "generation": 3,
                "root_provider_id": roots[p["uuid"]],
                "parent_provider_id": ids[parent] if parent else None,
            }
        )
    engine = db_api.get_placement_engine()
    with engine.begin() as conn:

        def table(model):
            return model.__table__

        def insert(model, rows):
            if rows:
                conn.execute(table(model).insert(), rows)

        def names(model):
            t = table(model)
            return {r.name: r.id for r in conn.execute(t.select())}

        insert(m.ResourceProvider, rows)
        rcs, traits = names(m.ResourceClass), names(m.Trait)
        insert(
            m.Inventory,
            [
                dict(
                    inventory.INVENTORY_DEFAULTS,
                    **dict(i, resource_provider_id=ids[p["uuid"]], resource_class_id=rcs[rc]),
                )
                for p in providers
                for rc, i in p["inventories"].items()
            ],
        )
        insert(
            m.ResourceProviderTrait,
            [
                {"resource_provider_id": ids[p["uuid"]], "trait_id": traits[t]}
                for p in providers
                for t in p["traits"]
            ],
        )
        aggs = {
            a: n for n, a in enumerate(sorted({a for p in providers for a in p["aggregates"]}), 1)
        }
        insert(m.PlacementAggregate, [{"id": n, "uuid": a} for a, n in aggs.items()])
        insert(
            m.ResourceProviderAggregate,
            [
                {"resource_provider_id": ids[p["uuid"]], "aggregate_id": aggs[a]}
                for p in providers
                for a in p["aggregates"]
            ],
        )
        allocs = topo.get("allocations", ())
        for model, key in ((m.Project, "project_id"), (m.User, "user_id")):
            insert(
                model,
                [
                    {"id": n, "external_id": x}
                    for n, x in enumerate(sorted({a.get(key, key[0] + "0") for a in allocs}), 1)
                ],
            )
        kinds = {
            k: n
            for n, k in enumerate(sorted({a.get("consumer_type", "INSTANCE") for a in allocs}), 1)
        }
        insert(m.ConsumerType, [{"id": n, "name": k} for k, n in kinds.items()])
        ext = {
            model: {r.external_id: r.id for r in conn.execute(table(model).select())}
            for model in (m.Project, m.User)
        }
        insert(
            m.Consumer,
            [
                {
                    "uuid": a["consumer"],
                    "generation": 1,
                    "project_id": ext[m.Project][a.get("project_id", "p0")],
                    "user_id": ext[m.User][a.get("user_id", "u0")],
                    "consumer_type_id": kinds[a.get("consumer_type", "INSTANCE")],
                }
                for a in allocs
            ],
        )
        insert(
            m.Allocation,
            [
                {
                    "resource_provider_id": ids[by_name.get(n, n)],
                    "consumer_id": a["consumer"],
                    "resource_class_id": rcs[rc],
                    "used": used,
                }
                for a in allocs
                for n, res in a["allocations"].items()
                for rc, used in res.items()
            ],
        )
        if engine.dialect.name == "postgresql":
            for model in (
                m.ResourceProvider,
                m.PlacementAggregate,
                m.Project,
                m.User,
                m.ConsumerType,
            ):
                t = table(model).name
                conn.exec_driver_sql(
                    f"SELECT setval(pg_get_serial_sequence('{t}', 'id'), (SELECT coalesce(max(id),"
                    f" 1) FROM {t}))"
                )
    if engine.dialect.name == "postgresql":
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.exec_driver_sql("ANALYZE")
    return {"total": time.perf_counter() - start}


def reset(app):
    """Empty every table but the standard classes and traits."""
    from placement import db_api
    from placement.db.sqlalchemy import models as m

    with db_api.get_placement_engine().begin() as conn:
        rp = m.ResourceProvider.__table__
        for model in (
            m.Allocation,
            m.Consumer,
            m.Inventory,
            m.ResourceProviderTrait,
            m.ResourceProviderAggregate,
        ):
            conn.execute(model.__table__.delete())
        conn.execute(rp.update().values(parent_provider_id=None, root_provider_id=None))
        for model in (m.ResourceProvider, m.PlacementAggregate, m.Project, m.User, m.ConsumerType):
            conn.execute(model.__table__.delete())


# --- normalised answers ----------------------------------------------------


def normalize_candidates(data, names):
    """Order-free form of a GET /allocation_candidates body."""

    def name(u):
        return names.get(u, u)

    reqs = []
    for ar in data["allocation_requests"]:
        allocs = ar["allocations"]
        if isinstance(allocs, list):  # before 1.12
            allocs = {a["resource_provider"]["uuid"]: a for a in allocs}
        one = {"allocations": {name(u): a["resources"] for u, a in sorted(allocs.items())}}
        if "mappings" in ar:
            one["mappings"] = {s: sorted(name(u) for u in us) for s, us in ar["mappings"].items()}
        reqs.append(one)
    reqs.sort(key=lambda r: json.dumps(r, sort_keys=True))
    summaries = {}
    for u, s in data["provider_summaries"].items():
        summaries[name(u)] = {
            "resources": s["resources"],
            "traits": sorted(s.get("traits", ())),
            "parent": name(s.get("parent_provider_uuid")),
            "root": name(s.get("root_provider_uuid")),
        }
    return {"allocation_requests": reqs, "provider_summaries": summaries}


def provider_names(app):
    data = app.must("GET", "/resource_providers")
    return {p["uuid"]: p["name"] for p in data["resource_providers"]}


def ask(app, query, names, repeat=1):
    """One query -> its normalised answer and its latency."""
    if isinstance(query, str):
        query = {"query": query}
    wall, cpu = [], []
    for _ in range(repeat):
        start, used = time.perf_counter(), time.process_time()
        status, data, _ = app.call(
            "GET",
            "/allocation_candidates?" + query["query"],
            microversion=query.get("microversion"),
        )
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    out = {
        "query": query["query"],
        "status": status,
        "ms": round(statistics.median(wall) * 1000, 3),
        "cpu_ms": round(statistics.median(cpu) * 1000, 3),
    }
    if status == 200:
        out["count"] = len(data["allocation_requests"])
        out.update(normalize_candidates(data, names))
    else:
        out["errors"] = (data or {}).get("errors")
    return out


def claim(app, spec, names):
    uuids = {n: u for u, n in names.items()}
    consumer = spec.get("consumer") or str(uuid.uuid4())
    if "body" in spec:
        body = json.loads(json.dumps(spec["body"]))
        body["allocations"] = {uuids.get(n, n): a for n, a in body["allocations"].items()}
    else:
        answer = ask(app, spec["query"], names)
        picks = answer.get("allocation_requests") or []
        index = spec.get("pick", 0)
        if index >= len(picks):
            return {"consumer": consumer, "status": None, "error": "no such candidate"}
        body = {
            "allocations": {
                uuids[n]: {"resources": r} for n, r in picks[index]["allocations"].items()
            },
            "project_id": "p0",
            "user_id": "u0",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
    start = time.perf_counter()
    status, data, _ = app.call("PUT", "/allocations/" + consumer, body, spec.get("microversion"))
    out = {
        "consumer": consumer,
        "status": status,
        "ms": round((time.perf_counter() - start) * 1000, 3),
        "allocations": {names.get(u, u): a["resources"] for u, a in body["allocations"].items()},
    }
    if data and data.get("errors"):
        out["errors"] = [
            {k: e.get(k) for k in ("status", "title", "code", "detail")} for e in data["errors"]
        ]
    return out


# --- commands --------------------------------------------------------------


def open_app(a):
    options = [("placement_database", "sqlite_synchronous", False)] if a.nosync else []
    for item in a.set or ():
        key, _, value = item.partition("=")
        group, _, name = key.rpartition(".")
        if value.lower() in ("true", "false"):
            value = value.lower() == "true"
        elif value.lstrip("-").isdigit():
            value = int(value)
        options.append((group or "placement", name, value))
    app = PlacementApp(a.db, a.microversion, options)
    loaded = None
    if a.reset:
        reset(app)
    if a.topology:
        with open(a.topology) as f:
            topo = json.load(f)
        loaded = (load_bulk if a.bulk else load_api)(app, topo)
    return app, loaded


def cmd_run(a):
    app, loaded = open_app(a)
    names = provider_names(app)
    out = {"load_seconds": loaded, "providers": len(names), "queries": [], "claims": []}
    if a.queries:
        with open(a.queries) as f:
            out["queries"] = [ask(app, q, names, a.repeat) for q in json.load(f)]
    if a.claims:
        with open(a.claims) as f:
            out["claims"] = [claim(app, c, names) for c in json.load(f)]
    return out


def selftest_topology():
    """A flat host on shared disk, one with both, and a nested host."""

    def inv(total, ratio=1.0, reserved=0):
        return {"total": total, "allocation_ratio": ratio, "reserved": reserved}

    agg = str(uuid.UUID(int=7))
    rows = [
        ("ss", None, {"DISK_GB": inv(1000)}, ["MISC_SHARES_VIA_AGGREGATE"], [agg]),
        ("cn1", None, {"VCPU": inv(8, 2.0), "MEMORY_MB": inv(4096)}, ["CUSTOM_GOLD"], [agg]),
        (
            "cn3",
            None,
            {"VCPU": inv(8), "MEMORY_MB": inv(4096), "DISK_GB": inv(60, reserved=10)},
            [],
            [agg],
        ),
        ("cn2", None, {"DISK_GB": inv(100)}, [], []),
        ("numa0", "cn2", {"VCPU": inv(4), "MEMORY_MB": inv(2048)}, [], []),
        ("numa1", "cn2", {"VCPU": inv(4), "MEMORY_MB": inv(2048)}, ["CUSTOM_FOO"], []),
        ("pf0", "numa0", {"SRIOV_NET_VF": inv(2)}, ["CUSTOM_NET_A"], []),
        ("pf1", "numa1", {"SRIOV_NET_VF": inv(2)}, ["CUSTOM_NET_B"], []),
    ]
    return agg, {
        "providers": [
            {
                "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, n)),
                "name": n,
                "parent": p,
                "inventories": i,
                "traits": t,
                "aggregates": a,
            }
            for n, p, i, t, a in rows
        ]
    }


def cmd_selftest(a):
    """Known answers for nested and sharing providers and for claims."""
    app = PlacementApp(a.db, a.microversion)
    reset(app)
    agg, topo = selftest_topology()
    (load_bulk if a.bulk else load_api)(app, topo)
    names = provider_names(app)
    uuids = {n: u for u, n in names.items()}
    flat = "resources=VCPU:1,MEMORY_MB:512,DISK_GB:10"
    numa = "resources=DISK_GB:10&resources_N=VCPU:1,MEMORY_MB:512&resources_P=SRIOV_NET_VF:1&group_policy=none"
    two = "resources_A=SRIOV_NET_VF:1&resources_B=SRIOV_NET_VF:1&group_policy="
    nested = {"cn2 numa0", "cn2 numa1", "cn2 numa0 numa1"}
    bad = []

    def check(what, query, providers, count=None):
        got = ask(app, query, names)
        seen = [" ".join(sorted(r["allocations"])) for r in got.get("allocation_requests", ())]
        if set(seen) != set(providers) or (count is not None and len(seen) != count):
            bad.append(
                {"case": what, "want": sorted(providers), "got": seen, "errors": got.get("errors")}
            )

    check("everything", flat, nested | {"cn1 ss", "cn3", "cn3 ss"}, 7)
    check("too big for local disk", "resources=VCPU:1,DISK_GB:500", {"cn1 ss", "cn3 ss"}, 2)
    check("forbidden aggregate", flat + "&member_of=!" + agg, nested, 4)
    check("member of", flat + "&member_of=" + agg, {"cn1 ss", "cn3", "cn3 ss"}, 3)
    check("in tree", flat + "&in_tree=" + uuids["cn3"], {"cn3"}, 1)
    check("root required", flat + "&root_required=CUSTOM_GOLD", {"cn1 ss"})
    check(
        "trait of any provider used",
        flat + "&required=CUSTOM_FOO",
        {"cn2 numa1", "cn2 numa0 numa1"},
        3,
    )
    check(
        "forbidden trait",
        flat + "&required=!CUSTOM_FOO",
        {"cn1 ss", "cn3", "cn3 ss", "cn2 numa0"},
        4,
    )
    check("granular", numa, {"cn2 numa0 pf0", "cn2 numa0 pf1", "cn2 numa1 pf0", "cn2 numa1 pf1"}, 4)
    check("same subtree", numa + "&same_subtree=_N,_P", {"cn2 numa0 pf0", "cn2 numa1 pf1"}, 2)
    check(
        "same subtree and trait",
        numa + "&same_subtree=_N,_P&required_P=in:CUSTOM_NET_A,CUSTOM_GOLD",
        {"cn2 numa0 pf0"},
        1,
    )
    check("isolate", two + "isolate", {"pf0 pf1"}, 2)
    check("no isolation", two + "none", {"pf0 pf1", "pf0", "pf1"}, 4)

    def put(what, allocs, want, generation=None, consumer=1):
        body = {
            "project_id": "p",
            "user_id": "u",
            "consumer_type": "INSTANCE",
            "consumer_generation": generation,
            "allocations": {n: {"resources": r} for n, r in allocs.items()},
        }
        got = claim(app, {"body": body, "consumer": str(uuid.UUID(int=consumer))}, names)
        if got["status"] != want:
            bad.append({"case": what, "want": want, "got": got})

    put("claim", {"cn1": {"VCPU": 8}, "ss": {"DISK_GB": 990}}, 204)
    put("consumer is not new", {"cn1": {"VCPU": 1}}, 409)
    put("replace", {"cn1": {"VCPU": 7}, "ss": {"DISK_GB": 990}}, 204, 1)
    put("over max_unit is over no limit here", {"cn1": {"VCPU": 9}}, 204, None, 2)
    put("over capacity", {"cn1": {"VCPU": 1}}, 409, None, 3)
    check("shared disk used up", flat, nested | {"cn3", "cn3 ss"}, 6)
    put("shared disk over capacity", {"ss": {"DISK_GB": 11}}, 409, None, 4)
    check("last of the shared disk", "resources=VCPU:1,DISK_GB:51", {"cn2 numa0", "cn2 numa1"})
    return {"ok": not bad, "failures": bad, "requests": app.requests}


def cmd_bench_ac(a):
    app, loaded = open_app(a)
    names = provider_names(app)
    rows = []
    for query in a.query:
        times, cpu = [], []
        for _ in range(a.repeat + 1):  # the first warms caches up
            start, used = time.perf_counter(), time.process_time()
            status, data, _ = app.call("GET", "/allocation_candidates?" + query)
            times.append((time.perf_counter() - start) * 1000)
            cpu.append((time.process_time() - used) * 1000)
        ms = sorted(times[1:])
        rows.append(
            {
                "query": query,
                "status": status,
                "candidates": len(data["allocation_requests"]) if status == 200 else None,
                "first_ms": round(times[0], 1),
                "median_ms": round(statistics.median(ms), 1),
                "min_ms": round(ms[0], 1),
                "max_ms": round(ms[-1], 1),
                "cpu_median_ms": round(statistics.median(cpu[1:]), 1),
                "runs": len(ms),
            }
        )
    return {"db": a.db, "providers": len(names), "load_seconds": loaded, "results": rows}


def _claim_worker(index, a, uuids, barrier, queue):
    app = PlacementApp(a.db, a.microversion)
    rng = random.Random(f"claims/{a.seed}/{index}")
    app.must("GET", "/")
    barrier.wait()
    tally, times, codes = collections.Counter(), [], collections.Counter()
    began, cpu = time.time(), time.process_time()
    for _n in range(a.claims):
        if a.mode == "get-put":
            status, data, _ = app.call(
                "GET", f"/allocation_candidates?{a.query[0]}&limit={a.limit}"
            )
            picks = data["allocation_requests"] if status == 200 else []
            if not picks:
                tally["no-candidate"] += 1
                continue
            allocs = rng.choice(picks)["allocations"]
        else:
            allocs = {rng.choice(uuids): {"resources": a.resources}}
        body = {
            "allocations": allocs,
            "project_id": f"p{index}",
            "user_id": "u0",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        start = time.perf_counter()
        status, data, _ = app.call(
            "PUT", f"/allocations/{uuid.UUID(int=rng.getrandbits(128), version=4)}", body
        )
        times.append(time.perf_counter() - start)
        tally[status] += 1
        if status >= 400:
            e = (data or {}).get("errors", [{}])[0]
            detail = e.get("detail") or ""
            codes[
                f"{status}"
                f" {e.get('code')}{' (capacity)' if 'xceed' in detail or 'Unable to allocate' in detail else ''}"
            ] += 1
    queue.put((began, time.time(), tally, codes, times, time.process_time() - cpu))


def over_capacity():
    """Inventories with more use than capacity: there should be none."""
    import sqlalchemy as sa
    from placement import db_api
    from placement.db.sqlalchemy import models as m

    inv, alloc = m.Inventory.__table__, m.Allocation.__table__
    used = (
        sa.select(sa.func.sum(alloc.c.used))
        .where(
            alloc.c.resource_provider_id == inv.c.resource_provider_id,
            alloc.c.resource_class_id == inv.c.resource_class_id,
        )
        .scalar_subquery()
    )
    limit = (inv.c.total - inv.c.reserved) * inv.c.allocation_ratio
    with db_api.get_placement_engine().connect() as conn:
        return conn.execute(
            sa.select(sa.func.count()).select_from(inv).where(used > limit)
        ).scalar()


def cmd_race(a):
    """Two consumers want the last unit; the first loses the generation race.

    A claim has checked capacity and written its rows; before it bumps the
    provider's generation another process claims the last unit and commits.
    The claim then retries inside the server. It must end in 409. Needs a
    database that lets two processes write (not sqlite).
    """
    if a.claims == "other":
        app = PlacementApp(a.db, a.microversion)
        return {"status": _take_one(app, 2)}
    app = PlacementApp(a.db, a.microversion)
    reset(app)
    uuid_ = str(uuid.UUID(int=1))
    load_api(
        app,
        {
            "providers": [
                {
                    "uuid": uuid_,
                    "name": "last",
                    "traits": [],
                    "aggregates": [],
                    "inventories": {"VCPU": {"total": 1}},
                }
            ]
        },
    )
    from placement.objects import resource_provider

    real, other = resource_provider.ResourceProvider.increment_generation, []

    def racing(self):
        if not other:
            other.append(None)
            other[0] = json.loads(
                subprocess.check_output(
                    [sys.executable, __file__, "race", "--db", a.db, "--claims", "other"]
                )
            )["status"]
        return real(self)

    resource_provider.ResourceProvider.increment_generation = racing
    mine = _take_one(app, 1)
    usage = app.must("GET", f"/resource_providers/{uuid_}/usages")
    used = usage["usages"]["VCPU"]
    return {
        "first_claim": mine,
        "second_claim": other[0],
        "used": used,
        "capacity": 1,
        "ok": used <= 1,
    }


def _take_one(app, consumer):
    return app.call(
        "PUT",
        "/allocations/" + str(uuid.UUID(int=consumer)),
        {
            "allocations": {str(uuid.UUID(int=1)): {"resources": {"VCPU": 1}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        },
    )[0]


def cmd_bench_claims(a):
    app, loaded = open_app(a)
    names = provider_names(app)
    uuids = sorted(names, key=names.get)[: a.hot or None]
    a.resources = {rc: int(n) for rc, n in (kv.split(":") for kv in a.claim.split(","))}
    ctx = multiprocessing.get_context("spawn")
    barrier, queue = ctx.Barrier(a.procs), ctx.Queue()
    procs = [
        ctx.Process(target=_claim_worker, args=(i, a, uuids, barrier, queue))
        for i in range(a.procs)
    ]
    for p in procs:
        p.start()
    got = [queue.get() for _ in procs]
    for p in procs:
        p.join()
    tally, codes, times = collections.Counter(), collections.Counter(), []
    for _, _, t, c, ms, _ in got:
        tally.update(t)
        codes.update(c)
        times += ms
    wall = max(g[1] for g in got) - min(g[0] for g in got)
    puts = len(times)
    times.sort()
    return {
        "db": a.db,
        "mode": a.mode,
        "procs": a.procs,
        "targets": len(uuids),
        "puts": puts,
        "wall_s": round(wall, 3),
        "puts_per_s": round(puts / wall, 1),
        "claims_per_s": round(tally[204] / wall, 1),
        "client_and_app_cpu_s": round(sum(g[5] for g in got), 2),
        "statuses": {str(k): v for k, v in tally.items()},
        "errors": dict(codes),
        "rate_409": round(tally[409] / puts, 4) if puts else None,
        "inventories_over_capacity": over_capacity(),
        "put_median_ms": round(statistics.median(times) * 1000, 2),
        "put_p95_ms": round(times[int(puts * 0.95)] * 1000, 2),
        "load_seconds": loaded,
    }


def main(argv=None):
    ap = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ap.add_argument("command", choices=("run", "selftest", "race", "bench-ac", "bench-claims"))
    ap.add_argument("--db", default="sqlite:///placement_peer.db")
    ap.add_argument("--topology")
    ap.add_argument("--bulk", action="store_true")
    ap.add_argument("--reset", action="store_true")
    ap.add_argument("--nosync", action="store_true", help="sqlite: PRAGMA synchronous = OFF")
    ap.add_argument("--set", action="append", metavar="[GROUP.]OPT=VALUE")
    ap.add_argument("--microversion", default=LATEST)
    ap.add_argument("--queries")
    ap.add_argument("--query", action="append")
    ap.add_argument(
        "--claims", default=None, help="run: JSON file; bench-claims: claims per process"
    )
    ap.add_argument("--repeat", type=int, default=1)
    ap.add_argument("--procs", type=int, default=1)
    ap.add_argument("--mode", choices=("put", "get-put"), default="put")
    ap.add_argument("--hot", type=int, default=0, help="bench-claims: only the first N providers")
    ap.add_argument("--limit", type=int, default=50)
    ap.add_argument("--claim", default="VCPU:1,MEMORY_MB:256,DISK_GB:10")
    ap.add_argument("--seed", default="0")
    ap.add_argument("-o", "--out", default="-")
    a = ap.parse_args(argv)
    if a.command == "bench-claims":
        a.claims = int(a.claims or 200)
    data = {
        "run": cmd_run,
        "selftest": cmd_selftest,
        "race": cmd_race,
        "bench-ac": cmd_bench_ac,
        "bench-claims": cmd_bench_claims,
    }[a.command](a)
    out = sys.stdout if a.out == "-" else open(a.out, "w")
    json.dump(data, out, indent=1, sort_keys=True)
    out.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
