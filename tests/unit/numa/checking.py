# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A slow checker of the cells and devices that instances get. It shares no code with the engine:
plain sets, one host."""

from __future__ import annotations

import itertools

PINNED = ("dedicated", "mixed")


class Cell:
    """A host cell with the resources that instances have of it."""

    def __init__(self, document):
        self.document = document
        self.id = document["id"]
        self.memory = self.shared = 0
        self.pages = {page["size_kb"]: 0 for page in document["pages"]}
        self.pinned = []

    def core(self, cpu):
        return set(next(core for core in self.document["siblings"] if cpu in core))

    def free_pages(self, size):
        page = next(page for page in self.document["pages"] if page["size_kb"] == size)
        return page["total"] - page["reserved"] - self.pages[size]

    @property
    def free(self):
        return set(self.document["pcpus"]) - set(self.pinned)

    def count(self, placed):
        self.memory += placed["memory_mb"]
        self.shared += len(placed["shared"])
        size = placed["page_kb"] or min(self.pages, default=None)
        if size is not None:
            self.pages[size] += placed["memory_mb"] * 1024 // size
        self.pinned += sorted(self.cpus(placed))

    def cpus(self, placed):
        cpus = {*placed["pins"].values(), *placed["reserved"]}
        if placed["thread_policy"] == "isolate":
            cpus = set().union(*map(self.core, cpus))
        return cpus


class Host:
    """A host with its instances."""

    def __init__(self, document):
        self.document = document
        self.cells = [Cell(cell) for cell in document["cells"]]
        self.devices = {}

    def cell(self, number):
        return next(cell for cell in self.cells if cell.id == number)

    def count(self, name, placed):
        for each in placed["cells"]:
            self.cell(each["host"]).count(each)
        for request in placed["pci"]:
            for device in request["devices"]:
                self.devices.setdefault(device["address"], []).append(name)

    def double(self):
        """Return the CPUs and devices that two instances have."""
        cpus = [cpu for cell in self.cells for cpu in cell.pinned]
        doubles = [cpu for cpu in set(cpus) if cpus.count(cpu) > 1] + [
            address for address, names in self.devices.items() if len(names) > 1
        ]
        for device in self.document["pci"]:
            parent = device.get("parent_addr")
            if parent and device["address"] in self.devices and parent in self.devices:
                doubles.append(parent)
        return doubles


def wrong(host, request, placed):
    """Return a list of sentences about errors in the resources that a request gets on a host,
    before they count."""
    topology = request.topology
    problems = []
    if topology is not None:
        numbers = [cell["host"] for cell in placed["cells"]]
        if len(set(numbers)) != len(topology.cells):
            problems.append("a guest cell has no host cell of its own")
        for guest, each in zip(topology.cells, placed["cells"]):
            problems += _wrong_cell(host, host.cell(each["host"]), topology, guest, each)
    for asked, given in zip(request.pci, placed["pci"]):
        problems += _wrong_devices(
            host, asked, given, {cell["host"] for cell in placed["cells"]} if topology else None
        )
    return problems


def _wrong_cell(host, cell, topology, guest, placed):
    problems = []
    cpus = list(placed["pins"].values())
    if sorted(map(int, placed["pins"])) != list(guest.pinned) or placed["shared"] != list(
        guest.shared
    ):
        problems.append("not each vCPU has its place")
    if (
        len({*cpus, *placed["reserved"]}) != len(cpus) + len(placed["reserved"])
        or cell.cpus(placed) - cell.free
    ):
        problems.append(f"pins {cpus} are not free")
    wanted = 1 if topology.emulator_policy == "isolate" and placed["guest"] == 0 else 0
    if len(placed["reserved"]) != wanted:
        problems.append("the emulator has not its CPU")
    on_core = [sum(cpu in core for cpu in cpus) for core in cell.document["siblings"]]
    if topology.thread_policy == "require" and on_core.count(1) > 1:
        problems.append(f"pins {cpus} are on threads of different cores")
    if topology.thread_policy == "isolate" and max(on_core, default=0) > 1:
        problems.append(f"pins {cpus} share a core")
    size = placed["page_kb"]
    if (size is None) != (topology.page_size is None):
        problems.append("the page size is not that of the request")
    if size is not None and (
        guest.memory_mb * 1024 % size or guest.memory_mb * 1024 > cell.free_pages(size) * size
    ):
        problems.append(f"there are not enough pages of {size} KiB")
    if topology.cpu_policy != "dedicated":
        if (
            cell.shared + len(guest.shared)
            > len(cell.document["cpus"]) * host.document["cpu_allocation_ratio"]
        ):
            problems.append("too many shared vCPUs")
        if (
            cell.memory + guest.memory_mb
            > cell.document["memory_mb"] * host.document["ram_allocation_ratio"]
        ):
            problems.append("too much memory")
    return problems


def _wrong_devices(host, asked, given, chosen):
    problems = []
    if len(given["devices"]) != asked.count:
        problems.append("not as many devices as asked for")
    known = {device["address"]: device for device in host.document["pci"]}
    for each in given["devices"]:
        device = known[each["address"]]
        if device["address"] in host.devices:
            problems.append(f"{device['address']} is taken")
        if not any(all(device.get(key) == value for key, value in spec) for spec in asked.specs):
            problems.append(f"{device['address']} is another device")
        if chosen is not None and device["numa_node"] not in near(host, asked.policy, chosen):
            problems.append(f"{device['address']} is too far away")
    return problems


def near(host, policy, chosen):
    """Return the NUMA cells that devices may come from."""
    if policy == "required":
        return chosen
    if policy == "legacy":
        return {*chosen, None}
    if policy == "preferred":
        return {None, *(device["numa_node"] for device in host.document["pci"])}
    sockets = {cell.id: cell.document["socket"] for cell in host.cells}
    if None in sockets.values():
        return chosen
    return {number for number in sockets if sockets[number] in {sockets[each] for each in chosen}}


def fits(host, request):
    """Return True if some choice of cells holds a request for cells. The function understands only
    kinds of devices without functions."""
    topology = request.topology
    for choice in itertools.permutations(host.cells, len(topology.cells)):
        if not all(_fits_cell(host, cell, topology, number) for number, cell in enumerate(choice)):
            continue
        if all(_has_devices(host, asked, {cell.id for cell in choice}) for asked in request.pci):
            return True
    return False


def _has_devices(host, asked, chosen):
    allowed = near(host, asked.policy, chosen)
    free = [
        device
        for device in host.document["pci"]
        if device["address"] not in host.devices
        and device["numa_node"] in allowed
        and any(all(device.get(key) == value for key, value in spec) for spec in asked.specs)
    ]
    return len(free) >= asked.count


def _fits_cell(host, cell, topology, number):
    guest = topology.cells[number]
    if not _fits_memory(cell, topology, guest):
        return False
    if topology.cpu_policy in PINNED and not _fits_pins(cell, topology, guest, number):
        return False
    if topology.cpu_policy == "dedicated":
        return True
    return (
        len(guest.shared) <= len(cell.document["cpus"])
        and cell.shared + len(guest.shared)
        <= len(cell.document["cpus"]) * host.document["cpu_allocation_ratio"]
        and cell.memory + guest.memory_mb
        <= cell.document["memory_mb"] * host.document["ram_allocation_ratio"]
    )


def _fits_memory(cell, topology, guest):
    sizes = sorted(cell.pages)
    need = guest.memory_mb * 1024
    if topology.page_size is not None:
        sizes = {"small": sizes[:1], "large": sizes[1:], "any": sizes}.get(
            topology.page_size, [topology.page_size]
        )
        return any(
            size in cell.pages and need % size == 0 and need <= cell.free_pages(size) * size
            for size in sizes
        )
    pinned = topology.cpu_policy in PINNED
    if not sizes:
        return guest.memory_mb <= cell.document["memory_mb"] - (cell.memory if pinned else 0)
    page = next(page for page in cell.document["pages"] if page["size_kb"] == sizes[0])
    return (
        need % sizes[0] == 0
        and need <= (cell.free_pages(sizes[0]) if pinned else page["total"]) * sizes[0]
    )


def _fits_pins(cell, topology, guest, number):
    count = len(guest.pinned)
    extra = 1 if topology.emulator_policy == "isolate" and number == 0 else 0
    if (extra and not count) or count + extra > len(cell.free):
        return False
    threads = max(map(len, cell.document["siblings"]), default=1)
    free = [len(set(core) & cell.free) for core in cell.document["siblings"]]
    if topology.thread_policy == "require":
        return any(
            each * sum(left >= each for left in free) >= max(count, 1)
            for each in range(2, threads + 1)
        )
    if topology.thread_policy == "isolate":
        whole = sum(left == threads for left in free)
        unused = sum(0 < left == len(core) for core, left in zip(cell.document["siblings"], free))
        legacy = set(cell.document["cpus"]) == set(cell.document["pcpus"])
        return 0 < count <= whole and count + extra <= unused and (threads == 1 or legacy)
    return True
