# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module metrics, its playbook, the alert rules and the dashboard. If Prometheus is installed,
node_exporter and Prometheus read them."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    capacity,
    metrics_data,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import recent
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    playbook,
    run,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

MONITORING = pathlib.Path(__file__).parents[3] / "extensions" / "monitoring"
PROMTOOL = pytest.mark.skipif(
    not (shutil.which("promtool") and shutil.which("prometheus-node-exporter")),
    reason="Prometheus is not here: run tests/setup/setup.sh events",
)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    now = time.time()
    fleets.discover(
        url,
        host("kvm1", domain("web", memory_mb=3000), domain('db "1"\\', memory_mb=1000)),
        host("kvm2", domain("old", memory_mb=3500, state="shutoff")),
        host("kvm3"),
        now=now,
    )
    run(
        "aggregate",
        store_url=url,
        name="a",
        hosts=["kvm1", "kvm2"],
        metadata={"availability_zone": "a"},
    )
    run("host", store_url=url, host="kvm3", state="disabled", reason="new")
    run("quota", store_url=url, project="shop", cores=4)
    return url


def samples(text):
    """Return {(name, labels): value}, as Prometheus would read them."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found, name, **labels):
    return found[f"drover_{name}", tuple(sorted(labels.items()))]


def test_figures_are_those_of_the_store(url, tmp_path):
    path = tmp_path / "drover.prom"
    done = run("metrics", store_url=url, path=str(path))
    assert done["changed"] and done["path"] == str(path) and is_plain(done)
    assert (
        path.read_text() == done["metrics"]
        and done["metrics"].endswith("# EOF\n")
        and path.stat().st_mode & 0o777 == 0o644
    )
    figures = samples(done["metrics"])
    assert (
        value(figures, "hosts", state="up") == 2
        and value(figures, "hosts", state="disabled") == 1
        and value(figures, "hosts", state="down") == 0
    )
    assert (
        value(figures, "host_up", host="kvm3", zone="") == 1
        and value(figures, "host_enabled", host="kvm3") == 0
    )
    assert value(figures, "resource_capacity", zone="a", resource_class="MEMORY_MB") == 8192
    assert value(figures, "resource_used", zone="a", resource_class="MEMORY_MB") == 7500
    assert value(figures, "resource_free", zone="a", resource_class="MEMORY_MB") == 692
    # No instance can use the free resources of a disabled host.
    assert value(figures, "resource_capacity", zone="", resource_class="MEMORY_MB") == 4096
    assert value(figures, "resource_free", zone="", resource_class="MEMORY_MB") == 0
    print([key for key in figures if key[0] == "drover_instances"])
    assert (
        value(figures, "instances", zone="a", state="running") == 2
        and value(figures, "instances", zone="a", state="shutoff") == 1
    )
    assert value(figures, "project_limit", project="shop", resource="cores") == 4
    assert ("drover_project_limit", (("project", "shop"), ("resource", "ram"))) not in figures
    # Neither host can take the instances of the other, and the third is disabled.
    assert value(figures, "unbearable_losses", zone="a") == 2
    assert time.time() - value(figures, "host_seen_timestamp_seconds", host="kvm1") < 60


def test_a_new_time_alone_is_no_change(url, tmp_path, monkeypatch):
    path = tmp_path / "drover.prom"
    assert (
        run("metrics", store_url=url, path=str(path), check=True)["changed"] and not path.exists()
    )
    assert run("metrics", store_url=url, path=str(path))["changed"]
    before, now = path.read_text(), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 5)
    assert (
        not run("metrics", store_url=url, path=str(path))["changed"] and path.read_text() != before
    )
    assert run("metrics", store_url=url)["path"] is None
    assert (
        "you may not write" in failure("metrics", store_url=url, path="/proc/drover.prom")
        or os.getuid() == 0
    )


def test_loss_is_borne_once_there_is_room(url):
    run("host", store_url=url, host="kvm3", state="enabled")
    figures = samples(run("metrics", store_url=url)["metrics"])
    assert (
        value(figures, "unbearable_losses", zone="a") == 0
        and value(figures, "unbearable_losses", zone="") == 0
    )


def test_what_happened_in_the_last_day(url):
    with Store.open(url).write() as connection:
        row = {
            "uuid": "",
            "instance_uuid": "i",
            "instance_name": "web",
            "source": "kvm1",
            "destination": "kvm2",
            "type": "live-migration",
        }
        for number, (status, seconds, at) in enumerate(
            (
                ("completed", 2, 90),
                ("completed", 4, 95),
                ("failed", 9, 95),
                ("running", None, 99),
                ("completed", 9, 1),
            )
        ):
            columns = {
                **row,
                "uuid": str(number),
                "status": status,
                "seconds": seconds,
                "created_at": at,
                "updated_at": at,
            }
            connection.execute(
                tables.migrations.insert().values(
                    {key: each for key, each in columns.items() if key in tables.migrations.c}
                )
            )
        for name, where, rejected, at in (
            ("a", "kvm1", 1, 90),
            ("b", None, 2, 90),
            ("c", None, 3, 1),
        ):
            explanation = {
                "hosts": 3,
                "filters": [
                    {
                        "name": "ComputeFilter",
                        "before": 3,
                        "after": 3 - rejected,
                        "rejected": rejected,
                    }
                ],
            }
            columns = {
                "created_at": at,
                "purpose": "place",
                "instance_name": name,
                "host": where,
                "alternates": [],
                "explanation": explanation,
            }
            connection.execute(tables.decisions.insert().values(columns))
    with Store.open(url).read() as connection:
        history = recent.read(connection, 50)
    assert history.migrations == {
        ("live-migration", "completed"): 2,
        ("live-migration", "failed"): 1,
        ("live-migration", "running"): 1,
    }
    assert history.durations == {"live-migration": [2, 4]} and history.open_migrations == {
        "live-migration": 1
    }
    assert history.decisions == {("place", True): 1, ("place", False): 1} and history.refusals == {
        "ComputeFilter": 2
    }


def test_an_empty_store(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    run("store", store_url=url)
    found = samples(run("metrics", store_url=url)["metrics"])
    assert value(found, "hosts", state="up") == 0


def test_the_playbook_writes_and_pushes(url, tmp_path):
    path, got = tmp_path / "drover.prom", []

    class Gateway(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *dummy):
            pass

    code, output = playbook("metrics", url, "-e", f"drover_metrics={path}", folder=tmp_path)
    assert code == 0 and str(path) in output, output
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        code, output = playbook(
            "metrics",
            url,
            "-e",
            f"drover_metrics_push=http://127.0.0.1:{server.server_port}/",
            "-e",
            "ansible_connection=local",
            "-e",
            f"ansible_python_interpreter={sys.executable}",
            folder=tmp_path,
        )
    finally:
        server.shutdown()
    assert code == 0, output
    ((where, text),) = got
    assert where == "/metrics/job/drover" and value(samples(text), "hosts", state="up") == 2
    code, output = playbook(
        "metrics",
        url,
        "-e",
        "drover_metrics_host=nobody",
        "-e",
        "drover_metrics=/tmp/drover.prom",
        folder=tmp_path,
    )
    assert code != 0 and "The inventory has no host nobody" in output, output


@PROMTOOL
def test_promtool_takes_metrics_and_rules(url):
    done = subprocess.run(
        ["promtool", "check", "metrics"],
        input=run("metrics", store_url=url)["metrics"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        ["promtool", "check", "rules", MONITORING / "alerts.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def server(log, *command):
    """Run a program during the block; its output is in a file."""
    with open(log, "wb") as file:
        program = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        yield
    finally:
        program.terminate()
        program.wait(30)


def free_ports(number):
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for dummy in range(number)
        ]
        return [each.getsockname()[1] for each in sockets]


@PROMTOOL
def test_prometheus_scrapes_node_exporter_and_the_rules_fire(url, tmp_path):
    (tmp_path / "textfile").mkdir()
    run("metrics", store_url=url, path=str(tmp_path / "textfile" / "drover.prom"))
    exporter, prometheus = free_ports(2)
    rules = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    (tmp_path / "prometheus.yml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(MONITORING / "alerts.yml")],
                "scrape_configs": [
                    {"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}]}
                ],
            }
        )
    )

    def asked(what, **given):
        query = urllib.parse.urlencode(given)
        with urllib.request.urlopen(
            f"http://127.0.0.1:{prometheus}/api/v1/{what}?{query}", timeout=5
        ) as answer:
            return json.load(answer)["data"]

    def figure(query):
        return {
            each["metric"].get("state"): each["value"][1]
            for each in asked("query", query=query)["result"]
        }

    with (
        server(
            tmp_path / "exporter.log",
            "prometheus-node-exporter",
            "--collector.disable-defaults",
            "--collector.textfile",
            f"--collector.textfile.directory={tmp_path / 'textfile'}",
            f"--web.listen-address=127.0.0.1:{exporter}",
        ),
        server(
            tmp_path / "prometheus.log",
            "prometheus",
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ),
    ):
        pending = set()
        for _attempt in range(60):
            time.sleep(1)
            try:
                pending = {each["labels"]["alertname"] for each in asked("alerts")["alerts"]}
            except OSError:
                continue
            if "DroverLossCannotBeBorne" in pending:
                break
        logs = "".join(
            (tmp_path / name).read_text()[-2000:] for name in ("exporter.log", "prometheus.log")
        )
        assert "DroverLossCannotBeBorne" in pending and "DroverHostDown" not in pending, logs
        assert figure("drover_hosts")["up"] == "2" and figure("node_textfile_scrape_error") == {
            None: "0"
        }, logs
        assert {rule["alert"] for group in rules["groups"] for rule in group["rules"]} >= pending


def test_rules_and_dashboard_name_metrics_that_there_are(url):
    text = run("metrics", store_url=url)["metrics"]
    metric_names = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    used = set()
    for name in ("alerts.yml", "dashboard.json"):
        used |= set(
            re.findall(
                r"\bdrover_[a-z_]+",
                re.sub(
                    r"drover_(host|audit_heal|instance_state)=", "", (MONITORING / name).read_text()
                ),
            )
        )
    assert used and used <= metric_names, used - metric_names
    assert {f"drover_{each}" for each in ("hosts", "instances")} <= used


def test_each_loss_is_judged_as_by_capacity(url):
    """The host in capacity's answer is one that the fleet cannot lose."""
    with Store.open(url).read() as connection:
        figures = metrics_data.read(connection, Policy.from_mapping(), time.time())
        (plan,) = capacity.count(
            connection, [{"vcpus": 1, "memory_mb": 64}], Policy.from_mapping(), True
        )
    assert (sum(figures["unbearable"].values()) > 0) is not plan["with_loss"]["survives"]


def test_the_page_names_every_metric(url):
    page = (
        (MONITORING.parents[1] / "docs" / "metrics.md").read_text().partition("## The figures")[2]
    )
    metric_names = set(
        re.findall(r"^# TYPE (\S+)", run("metrics", store_url=url)["metrics"], re.MULTILINE)
    )
    assert set(re.findall(r"\bdrover_[a-z_]+", page)) == metric_names
