# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Upgrades from every revision to a made-up later one, with data in every table, on both databases.

The rows are plain SQL, recorded when the revision was made, independent of today's tables.py. A new
revision is tested automatically; a revision that adds a table must add its rows here.
"""

from __future__ import annotations

import inspect
import pathlib
import shutil

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import revisions, schema
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import host, selection, uuid_of

REVISIONS = sorted(schema.revisions())
# A revision of a later version, made up: there is something to upgrade to before the first change
# of the schema. It moves data too.
NEXT = "9000"
NEXT_TEXT = f'''"""A made-up revision: a column, a table, and the data in them."""

import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{REVISIONS[-1]}"


def upgrade():
    op.add_column("instances", sa.Column("owner", sa.String(length=64)))
    op.execute(sa.text("UPDATE instances SET owner = project"))
    op.create_table("owners", sa.Column("name", sa.String(length=64), primary_key=True))
    op.execute(sa.text("INSERT INTO owners (name) SELECT owner FROM instances WHERE owner IS NOT NULL"))
'''


@pytest.fixture
def next_version(tmp_path, monkeypatch):
    """Make this the next version of the collection: it has the made-up revision too."""
    folder = tmp_path / "schema" / "versions"
    shutil.copytree(pathlib.Path(revisions.scripts().versions), folder)
    (folder / f"rev_{NEXT}_next.py").write_text(NEXT_TEXT)
    monkeypatch.setattr(revisions, "scripts", lambda: ScriptDirectory(str(folder.parent)))
    monkeypatch.setattr(schema, "LATEST", NEXT)


# The rows that were written into a store of each revision; a later revision has the rows of the
# earlier ones too.
ROWS = {
    "0100": (
        f"""
INSERT INTO services (id, uuid, host, "binary", disabled, forced_down, maintenance, status_before_drain, last_seen_up, created_at)
VALUES (1, '{uuid_of("s1")}', 'kvm1', 'libvirtd', false, false, false, NULL, 1700000000.25, 1700000000.0);
INSERT INTO services (id, uuid, host, "binary", disabled, disabled_reason, forced_down, maintenance, status_before_drain,
 last_seen_up, created_at) VALUES (2, '{uuid_of("s2")}', 'kvm2', 'libvirtd', true, 'fans', false, true,
 '{{"disabled": false, "disabled_reason": null, "maintenance": false}}', 1700000000.5, 1700000000.0);
INSERT INTO compute_nodes (id, uuid, service_id, host, hypervisor_hostname, uri, cell, reported, hypervisor_type,
 hypervisor_version, cpu_info, facts, created_at, updated_at) VALUES (1, '{uuid_of("kvm1")}', 1, 'kvm1', 'kvm1', 'qemu:///system',
 'c', true, 'QEMU', 7002000, '{{"arch": "x86_64"}}', '{{"pools": []}}', 1700000000.0, 1700000001.0);
INSERT INTO compute_nodes (id, uuid, service_id, host, hypervisor_hostname, reported, created_at, updated_at)
VALUES (2, '{uuid_of("kvm2")}', 2, 'kvm2', 'kvm2', true, 1700000000.0, 1700000001.0);
INSERT INTO resource_classes (id, name) VALUES (1, 'VCPU');
INSERT INTO resource_classes (id, name) VALUES (2, 'MEMORY_MB');
INSERT INTO traits (id, name) VALUES (1, 'COMPUTE_NODE');
INSERT INTO resource_providers (id, uuid, name, generation) VALUES (1, '{uuid_of("kvm1")}', 'kvm1', 3);
INSERT INTO resource_providers (id, uuid, name, generation) VALUES (2, '{uuid_of("kvm2")}', 'kvm2', 1);
INSERT INTO resource_providers (id, uuid, name, generation, parent_id, root_id)
VALUES (3, '{uuid_of("card")}', 'kvm1-card', 0, 1, 1);
INSERT INTO inventories (id, provider_id, class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
VALUES (1, 1, 1, 8, 0, 1, 8, 1, 1.0);
INSERT INTO inventories (id, provider_id, class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
VALUES (2, 1, 2, 4096, 512, 1, 4096, 1, 1.5);
INSERT INTO inventories (id, provider_id, class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
VALUES (3, 2, 1, 8, 0, 1, 8, 1, 1.0);
INSERT INTO inventories (id, provider_id, class_id, total, reserved, min_unit, max_unit, step_size, allocation_ratio)
VALUES (4, 2, 2, 4096, 0, 1, 4096, 1, 1.0);
INSERT INTO provider_traits (provider_id, trait_id) VALUES (1, 1);
INSERT INTO aggregates (id, uuid, name, metadata) VALUES (1, '{uuid_of("a")}', 'a', '{{"availability_zone": "a"}}');
INSERT INTO aggregate_hosts (aggregate_id, host) VALUES (1, 'kvm1');
INSERT INTO consumers (id, uuid, type, project, "user", generation, created_at)
VALUES (1, '{uuid_of("web")}', 'INSTANCE', 'p', 'u', 2, 1700000000.0);
INSERT INTO consumers (id, uuid, type, generation, created_at) VALUES (2, '{uuid_of("db")}', 'INSTANCE', 1, 1700000000.0);
INSERT INTO consumers (id, uuid, type, generation, created_at) VALUES (3, '{uuid_of("m1")}', 'MIGRATION', 1, 1700000000.0);
INSERT INTO allocations (id, provider_id, class_id, consumer_id, used) VALUES (1, 1, 1, 1, 2);
INSERT INTO allocations (id, provider_id, class_id, consumer_id, used) VALUES (2, 1, 2, 1, 1024);
INSERT INTO allocations (id, provider_id, class_id, consumer_id, used) VALUES (3, 1, 1, 2, 3);
INSERT INTO allocations (id, provider_id, class_id, consumer_id, used) VALUES (4, 2, 1, 3, 3);
INSERT INTO server_groups (id, uuid, name, policy, max_server_per_host) VALUES (1, '{uuid_of("g")}', 'g', 'anti-affinity', 1);
INSERT INTO instances (id, uuid, name, compute_node_id, state, server_group_id, vcpus, memory_mb, disk_gb, availability_zone,
 project, "user", flavor, created_at)
VALUES (1, '{uuid_of("web")}', 'web', 1, 'active', 1, 2, 1024, 0, 'a', 'p', 'u', 'small', 1700000000.0);
INSERT INTO instances (id, uuid, name, compute_node_id, state, vcpus, memory_mb, disk_gb, created_at)
VALUES (2, '{uuid_of("db")}', 'db', 2, 'active', 3, 0, 0, 1700000000.0);
INSERT INTO domains (compute_node_id, uuid, name, state, persistent, autostart, facts, xml, seen_at)
VALUES (1, '{uuid_of("web")}', 'web', 'running', true, false, '{{"disks": [{{"target": "vda"}}]}}', '<domain/>', 1700000002.0);
INSERT INTO migrations (id, uuid, instance_uuid, instance_name, source_node_id, destination_node_id, source, destination, type,
 status, message, created_at, updated_at) VALUES (1, '{uuid_of("m1")}', '{uuid_of("db")}', 'db', 2, 1, 'kvm2', 'kvm1',
 'live-migration', 'running', NULL, 1700000000.0, 1700000001.0);
INSERT INTO migrations (id, uuid, instance_uuid, instance_name, source, destination, type, status, message, created_at,
 updated_at) VALUES (2, '{uuid_of("m2")}', '{uuid_of("gone")}', 'gone', 'kvm9', 'kvm1', 'migration', 'failed', 'no route',
 1600000000.0, 1600000001.0);
UPDATE compute_nodes SET host_ip = '192.0.2.1', stats = '{{"io_workload": 3}}', metrics = '[]', num_io_ops = 3, failed_builds = 1
 WHERE id = 1;
UPDATE instances SET image = '{{"hw_disk_bus": "virtio"}}' WHERE id = 1;
INSERT INTO flavors (id, uuid, name, vcpus, memory_mb, disk_gb, extra_specs, created_at)
VALUES (1, '{uuid_of("f")}', 'small', 2, 1024, 0, '{{"a": "b"}}', 1700000000.0);
UPDATE inventories SET used = coalesce((SELECT sum(a.used) FROM allocations a
 WHERE a.provider_id = inventories.provider_id AND a.class_id = inventories.class_id), 0);
UPDATE consumers SET expires_at = 1800000000.5 WHERE id = 2;
UPDATE migrations SET details = '{{"flavor": "old"}}' WHERE id = 2;
INSERT INTO placement_aggregates (id, uuid) VALUES (1, '{uuid_of("storage")}');
INSERT INTO provider_aggregates (provider_id, aggregate_id) VALUES (1, 1);
UPDATE instances SET policy = '{{"move": "cold"}}' WHERE id = 1;
UPDATE server_groups SET max_moving = 1 WHERE id = 1;
INSERT INTO leases (name, holder, process, purpose, acquired_at, renewed_at, expires_at)
VALUES ('kvm1', 'admin@ctrl, process 7', 'ctrl/boot/pid:[1]/7:42', 'drain', 1700000000.0, 1700000001.0, 1700000301.0);
INSERT INTO power_events (id, uuid, host, action, driver, status, created_at, updated_at)
VALUES (1, '{uuid_of("power")}', 'kvm2', 'hard_off', 'redfish', 'done', 1700000000.0, 1700000001.0);
INSERT INTO rolling_hosts (host, stage, instances, created_at, updated_at)
VALUES ('kvm1', 'reboot', '[{{"node": "kvm1"}}]', 1700000000.0, 1700000001.0);
INSERT INTO decisions (id, created_at, purpose, actor, instance_uuid, instance_name, host, node, alternates, explanation)
VALUES (1, 1700000000.5, 'place', 'admin@ctrl, process 7', '{uuid_of("web")}', 'web', 'kvm1', 'kvm1',
 '[{{"host": "kvm2", "node": "kvm2"}}]', '{{"hosts": 2, "filters": []}}');
INSERT INTO decisions (id, created_at, purpose, instance_name, alternates, message)
VALUES (2, 1700000001.5, 'place', 'big', '[]', 'No valid host for big.');
INSERT INTO domain_files (id, compute_node_id, uuid, path, identity)
VALUES (1, 1, '{uuid_of("web")}', '/srv/vms/web.qcow2', 'nfs:filer:/vms/web.qcow2');
INSERT INTO domain_files (id, compute_node_id, uuid, path) VALUES (2, 1, '{uuid_of("web")}', '/srv/images/base.qcow2');
UPDATE domain_files SET written = (id = 1);
UPDATE migrations SET copied_memory_mib = 512, copied_disk_mib = 2048, seconds = 12.5 WHERE id = 2;
UPDATE instances SET labels = '{{"project": "web"}}' WHERE id = 1;
UPDATE services SET labels = '{{"rack": "7"}}' WHERE host = 'kvm1';
INSERT INTO images (id, uuid, name, disk_format, properties, source, checksum, created_at)
VALUES (1, '{uuid_of("image")}', 'debian-12', 'qcow2', '{{"hw_architecture": "x86_64"}}', 'https://example.com/debian-12.qcow2',
 'sha256:{"0" * 64}', 1700000000.0);
UPDATE instances SET extra_specs = '{{"trait:CUSTOM_SSD": "required"}}', image_name = 'debian-12' WHERE id = 1;
INSERT INTO quotas (id, project, resource, hard_limit) VALUES (1, 'shop', 'cores', 40);
INSERT INTO pci_devices (id, compute_node_id, address, vendor_id, product_id, device_class, numa_node, dev_type, iommu_group, tags, traits,
 reported, consumer_id) VALUES (1, 1, '0000:3b:00.0', '10de', '2204', '030000', 0, 'type-PCI', 40, '{{"managed": "true"}}', '[]', true, 1);
INSERT INTO mdev_types (id, compute_node_id, parent, type, resource_class, total) VALUES (1, 1, 'pci_0000_84_00_0', 'nvidia-35', 'VGPU', 4);
INSERT INTO mdevs (id, compute_node_id, uuid, parent, type, active, consumer_id)
VALUES (1, 1, '{uuid_of("mdev")}', 'pci_0000_84_00_0', 'nvidia-35', true, 1);
INSERT INTO numa_allocations (id, consumer_id, compute_node_id, cells)
VALUES (1, 1, 1, '[{{"guest": 0, "host": 0, "memory_mb": 512, "page_kb": null, "shared": [], "pins": {{"0": 1}}, "reserved": []}}]');
UPDATE instances SET image_id = 'debian-12-2026', image_format = 'qcow2' WHERE id = 1;
INSERT INTO storage_fences (host, fence, addresses, cut, created_at, verified_at)
VALUES ('kvm2', 'ceph', '["192.0.2.12"]', '["rbd:mon1:/vms/web"]', 1700000000.0, 1700000001.0);
UPDATE inventories SET reserved_before_drain = reserved, drain_reason = 'new disks' WHERE id = 4;
UPDATE compute_nodes SET host_model = '{{"arch": "x86_64", "type": "kvm", "vendor": "Intel", "model": "Haswell", "features": ["aes"]}}'
 WHERE id = 1;
INSERT INTO fleet_cpus (cell, arch, domain_type, vendor, cpu, hosts, created_at)
VALUES ('c', 'x86_64', 'kvm', 'Intel', '{{"vendor": "Intel", "model": "Haswell", "policies": {{}}, "features": ["aes"]}}', '["kvm1"]', 1700000000.0);
INSERT INTO history (day, zone, resource_class, capacity, used) VALUES (20000, 'a', 'VCPU', 64.0, 12);
INSERT INTO storage_fences (host, fence, addresses, cut, created_at, verified_at)
VALUES ('kvm2', '/etc/drover/fence_tgt.yml', '["192.0.2.12"]', '[]', 1700000002.0, NULL);
UPDATE domains SET local_disks = true WHERE compute_node_id = 1;
INSERT INTO actions (id, created_at, kind, instance_uuid, instance_name, host, destination, message, "user", controller, command, reason, job)
VALUES (1, 1700000002.5, 'move', '{uuid_of("web")}', 'web', 'kvm1', 'kvm2', 'live-migration: completed', 'alice as root', 'ctl1',
 'ansible-playbook drover.compute.drain -e drover_host=kvm1', 'new memory', '{{"id": "42", "user": "alice"}}');
INSERT INTO actions (id, created_at, kind, message, "user", controller, command, reason)
VALUES (2, 1700000003.5, 'run', 'drain', 'root', 'ctl1', 'ansible-playbook site.yml', '');
"""
    ),
}


def raw(url):
    return sa.create_engine(url, poolclass=sa.pool.NullPool)


def upgrade_to(connection, revision):
    """Run the migrations up to a revision, as a version of the collection did when this revision
    was its newest."""
    scripts = revisions.scripts()
    with EnvironmentContext(
        Config(), scripts, fn=lambda current, context: scripts._upgrade_revs(revision, current)
    ) as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()


def build(url, revision):
    """Make a store of a revision with rows in every table; return the rows: dict table -> (columns,
    rows)."""
    with raw(url).begin() as connection:
        upgrade_to(connection, revision)
        for number in sorted(ROWS):
            for statement in ROWS[number].split(";\n") if number <= revision else ():
                if statement.strip():
                    connection.exec_driver_sql(statement.replace("%", "%%"))
        if connection.dialect.name == "postgresql":
            # Set the counters as if the rows had come one by one.
            for table in sa.inspect(connection).get_table_names():
                if "id" in {column["name"] for column in sa.inspect(connection).get_columns(table)}:
                    connection.execute(
                        sa.text(
                            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT"
                            f" max(id) FROM {table}))"
                        )
                    )
    by_table = contents(url)
    assert [name for name, (dummy, rows) in by_table.items() if not rows] == [], (
        "write rows of these tables into ROWS"
    )
    return by_table


def contents(url, columns=None):
    """Return all rows of all tables, or of some with some columns: dict table -> (columns,
    rows).
    """
    by_table = {}
    with raw(url).connect() as connection:
        quote = connection.dialect.identifier_preparer.quote
        inspector = sa.inspect(connection)
        for table in columns or sorted(set(inspector.get_table_names()) - {"alembic_version"}):
            names = (
                columns[table]
                if columns
                else [column["name"] for column in inspector.get_columns(table)]
            )
            rows = connection.exec_driver_sql(
                f"SELECT {', '.join(map(quote, names))} FROM {quote(table)}"
            )
            by_table[table] = (names, sorted(map(repr, rows)))
    return by_table


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_row_is_there_after_an_upgrade(next_version, store_url, revision):
    before = build(store_url, revision)
    assert Store.open(store_url).upgrade() == revision
    assert (
        contents(store_url, {table: columns for table, (columns, dummy) in before.items()})
        == before
    )
    assert contents(store_url)["owners"] == (["name"], ["('p',)"])
    with raw(store_url).connect() as connection:
        wrong = connection.exec_driver_sql(
            "SELECT i.id FROM inventories i WHERE i.used <> coalesce((SELECT sum(a.used) FROM"
            " allocations a WHERE a.provider_id = i.provider_id AND a.class_id = i.class_id), 0)"
        ).all()
    assert wrong == []


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_engine_uses_it_after_an_upgrade(next_version, store_url, revision):
    build(store_url, revision)
    Store.open(store_url).upgrade()
    fleet_columns = fleets.columns(store_url)
    assert (fleet_columns["host"], fleet_columns["disabled"], fleet_columns["zones"]) == (
        ["kvm1", "kvm2"],
        [False, True],
        [["a"], []],
    )
    assert fleet_columns["resources"]["VCPU"]["used"] == [5, 3]
    assert fleets.where(store_url) == {"web": "kvm1", "db": "kvm2"}
    # Three of the eight are left: three more fit, and four do not.
    with pytest.raises(DroverError, match="VCPU: asked 4, used 5 of 8"):
        fleets.claim(store_url, selection("new", "kvm1", vcpus=4))
    fleets.claim(store_url, selection("new", "kvm1", vcpus=3))
    assert fleets.used(store_url) == {"kvm1": 8, "kvm2": 3}
    fleets.discover(store_url, host("kvm3"))


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_older_store_is_not_read_but_told_how_to_upgrade(next_version, store_url, revision):
    before = build(store_url, revision)
    with (
        pytest.raises(
            DroverError,
            match=f"older schema {revision}.*needs {schema.LATEST}.*drover.compute.store",
        ),
        Store.open(store_url).read(),
    ):
        pytest.fail("it must not be read")
    assert contents(store_url) == before


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_upgrade_that_fails_changes_nothing(next_version, store_url, revision, monkeypatch):
    before = build(store_url, revision)
    migrate = revisions.run

    def half(connection):
        migrate(connection)
        raise RuntimeError("half way")

    monkeypatch.setattr(revisions, "run", half)
    with pytest.raises(RuntimeError, match="half way"):
        Store.open(store_url).upgrade()
    assert contents(store_url) == before


def test_check_mode_upgrades_nothing(next_version, store_url):
    before = build(store_url, REVISIONS[0])
    assert Store.open(store_url, check_mode=True).upgrade() == REVISIONS[0]
    assert contents(store_url) == before


def test_revisions_are_a_line_that_goes_up_only():
    scripts = revisions.scripts()
    assert [script.revision for script in scripts.walk_revisions()] == REVISIONS[::-1]
    assert REVISIONS[-1] == schema.LATEST
    for script in scripts.walk_revisions():
        assert not hasattr(script.module, "downgrade"), "there is no way down"
        assert len(inspect.getdoc(script.module)) > 10
