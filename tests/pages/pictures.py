# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The two pictures of the README: a drain in a terminal (SVG), and the report in a browser (PNG).

The picture of the report keeps the checksum of its page, so a test without a browser can check that
the page is unchanged.
"""

from __future__ import annotations

import hashlib
import pathlib
import struct
import tempfile
import zlib

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    report_data,
    scheduling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._report import html
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import bulk
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.pages import recorded, svg
from ansible_collections.drover.compute.tests.unit import examples
from ansible_collections.drover.compute.tests.unit.store import fleets

FOLDER = examples.ROOT / "docs" / "pictures"
DRAIN, REPORT = FOLDER / "drain.svg", FOLDER / "report.png"
#: The time of the reading of the report's fleet, in seconds since 1970: 2027-01-15 08:00 UTC.
AT = 1_800_000_000.0
DAY = 86400
#: The part of the page that is in the picture, in pixels.
WIDTH, HEIGHT = 1200, 1180
KEY = b"drover-page-sha256"


def drain() -> str:
    """Return the drain in a terminal, as SVG."""
    lines = [
        (
            "$ ansible-playbook drover.compute.drain -e drover_host=kvm1 -e 'drover_reason=\"new"
            " kernel\"'"
        ),
        "",
        *recorded.output("drain"),
    ]
    return svg.terminal(
        lines,
        "drover.compute: drain of kvm1",
        "The drain shows its plan, each move, and that the host is empty.",
    )


def page() -> bytes:
    """Return the report of a fleet of 24 hosts, always the same."""
    with tempfile.TemporaryDirectory(prefix="drover-pages_") as folder:
        url = f"sqlite:///{folder}/store.db"
        _fleet(url)
        with Store.open(url).read() as connection:
            return html.page(report_data.read(connection, Policy.from_mapping({}), AT, 0, ()), AT)


def checksum() -> str:
    return hashlib.sha256(page()).hexdigest()


def checksum_of_picture() -> str | None:
    """Return the checksum of the page that the picture shows."""
    data = REPORT.read_bytes()
    at = data.find(b"tEXt" + KEY + b"\0")
    return data[at + 5 + len(KEY) :][:64].decode("ascii") if at > 0 else None


def _fleet(url: str) -> None:
    kinds = (
        ("web", 2, 4096, 20),
        ("db", 8, 32768, 200),
        ("app", 4, 8192, 40),
        ("cache", 2, 16384, 10),
        ("build", 8, 16384, 100),
    )
    hosts = []
    for number in range(1, 25):
        domains = []
        for index in range(2 + number * 7 % 9):
            kind, vcpus, memory, disk = kinds[(number + index) % len(kinds)]
            state = "shutoff" if (number + index) % 11 == 0 else "running"
            domains.append(
                fleets.domain(f"{kind}{number:02d}{index}", vcpus, memory, disk, state=state)
            )
        options = {
            "vcpus": 64,
            "memory_mb": 172032,
            "local_gb": 2000,
            "availability_zone": ("east", "west")[number % 2],
        }
        hosts.append(fleets.host(f"kvm{number}", *domains, **options))
    fleets.discover(url, *hosts, now=AT - 240)
    with Store.open(url).write() as connection:
        services.record_unreachable(connection, "kvm9", "timed out", AT - 200)
        for name, values in (
            ("kvm4", {"disabled": True, "disabled_reason": "new kernel", "maintenance": True}),
            ("kvm17", {"disabled": True, "disabled_reason": "waits for a new fan"}),
        ):
            services.change(connection, services.get(connection, name), values)
        nodes = tables.compute_nodes
        connection.execute(
            sa.update(nodes).values(memory_mb_used=nodes.c.id * 4000, local_gb_used=nodes.c.id * 40)
        )
        for name, vcpus, memory, disk in (
            ("small", 2, 4096, 20),
            ("medium", 4, 8192, 40),
            ("large", 8, 32768, 200),
        ):
            flavors.ensure(
                connection, name, {"vcpus": vcpus, "memory_mb": memory, "disk_gb": disk}, AT
            )
        ids = {row.host: row.id for row in connection.execute(sa.select(nodes.c.id, nodes.c.host))}
        rows = [
            {
                "uuid": fleets.uuid_of(f"move {number}"),
                "instance_uuid": fleets.uuid_of(f"app{number}"),
                "instance_name": f"app{number:02d}1",
                "source_node_id": ids["kvm4"],
                "destination_node_id": ids[f"kvm{10 + number}"],
                "source": "kvm4",
                "destination": f"kvm{10 + number}",
                "type": "live-migration",
                "status": "completed",
                "message": None,
                "created_at": AT - number % 5 * DAY - 600,
                "updated_at": AT - number % 5 * DAY - 560,
            }
            for number in range(1, 13)
        ]
        bulk.insert(connection, tables.migrations, rows)
    with Store.open(url).read() as connection:
        requests = [
            {
                "name": name,
                "uuid": fleets.uuid_of(name),
                "vcpus": 2,
                "memory_mb": 4096,
                "disk_gb": 20,
            }
            for name in ("shop1", "shop2")
        ]
        picked = scheduling.decide(connection, requests, Policy.from_mapping({}), AT)
    with Store.open(url).write(together=True) as connection:
        claims.claim(connection, picked, AT - 60, actor="ada@desk, process 4711")
        # The picture names ada, and not the user who makes it.
        same = {
            "created_at": AT - 60,
            "user": "ada",
            "controller": "desk",
            "command": "ansible-playbook drover.compute.place",
            "reason": "",
        }
        connection.execute(sa.update(tables.actions).values(**same))


def photograph(browser: object, target: pathlib.Path = REPORT) -> None:
    """Write the picture of the report.

    :param browser: object of tests.unit.report.browser.
    """
    shown = page()
    with tempfile.TemporaryDirectory(prefix="drover-pages_") as folder:
        path = pathlib.Path(folder, "report.html")
        path.write_bytes(shown)
        browser.size(WIDTH, HEIGHT)
        browser.open(path)
        browser.media(prefers_color_scheme="light")
        browser.command(
            "Emulation.setDeviceMetricsOverride",
            width=WIDTH,
            height=HEIGHT,
            deviceScaleFactor=1,
            mobile=False,
        )
        picture = pathlib.Path(folder, "report.png")
        browser.view_of_window(picture)
        data = picture.read_bytes()
    # The place after the head of the file, which has 8 bytes, and the first chunk, which has 25.
    target.write_bytes(
        data[:33]
        + _chunk(b"tEXt", KEY + b"\0" + hashlib.sha256(shown).hexdigest().encode("ascii"))
        + data[33:]
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
