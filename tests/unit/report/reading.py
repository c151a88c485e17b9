# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The content of a page, and the content of the store by independent SQL."""

from __future__ import annotations

import html.parser

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables

CLASSES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "disk_gb"}


class Reader(html.parser.HTMLParser):
    """Tags, attributes and texts; hosts: dict name -> dict class of a <data> -> value, from the
    table of hosts.
    """

    def __init__(self, content):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.hosts, self.values = [], [], [], {}, {}
        self._host = self._heading = None
        self.feed(content.decode())
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.attributes.append((tag, attrs))
        if tag == "tr":
            self._host = None
            self._heading = attrs.get("id", "").startswith("host-")
        if tag == "data":
            if "id" in attrs:
                self.values[attrs["id"]] = attrs["value"]
            elif self._host is not None:
                self.hosts[self._host][attrs["class"]] = attrs["value"]

    def handle_endtag(self, tag):
        if tag == "tr":
            self._host = self._heading = None

    def handle_data(self, data):
        self.texts.append(data)
        if self._heading:
            self._host, self._heading = data.strip(), None
            self.hosts[self._host] = {}

    @property
    def text(self):
        return "".join(self.texts)


def truth(url):
    """Return a dict name -> dict figure -> text of the hosts, as a page must have them."""
    nodes, providers = tables.compute_nodes, tables.resource_providers
    inventories, classes, instances = tables.inventories, tables.resource_classes, tables.instances
    by_host = {}
    with Store.open(url).read() as connection:
        query = (
            sa.select(nodes.c.host, classes.c.name, inventories)
            .join(providers, providers.c.uuid == nodes.c.uuid)
            .join(inventories, inventories.c.provider_id == providers.c.id)
            .join(classes, classes.c.id == inventories.c.class_id)
            .where(classes.c.name.in_(CLASSES))
        )
        for row in connection.execute(query):
            used = connection.execute(
                sa.select(sa.func.coalesce(sa.func.sum(tables.allocations.c.used), 0)).where(
                    tables.allocations.c.provider_id == row.provider_id,
                    tables.allocations.c.class_id == row.class_id,
                )
            ).scalar_one()
            capacity = int((row.total - row.reserved) * row.allocation_ratio)
            by_host.setdefault(row.host, {})[CLASSES[row.name]] = f"{used}/{capacity}"
        query = sa.select(nodes.c.host, sa.func.count(instances.c.id)).outerjoin(
            instances, instances.c.compute_node_id == nodes.c.id
        )
        for host, count in connection.execute(query.group_by(nodes.c.host)):
            by_host[host]["instances"] = str(count)
    return by_host
