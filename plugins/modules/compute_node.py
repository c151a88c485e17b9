#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: compute_node
short_description: Record a hypervisor and its domains in the store
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads a hypervisor like M(drover.compute.hypervisor_info) and records it in one transaction.
    This is the heartbeat of its service, its compute node with inventories and traits, and its
    domains as instances with their allocations.
  - If a host no longer reports a compute node, the module removes the node if it has no
    allocations. Otherwise it stays, gets no new instances, and is named in RV(unreported).
  - If the module cannot reach or read the hypervisor, it records its service as down, with the
    reason, and the task fails or is unreachable as usual. Other hosts continue.
  - Each option but O(nodes), O(host) and O(store_url) can also be set by a variable with C(drover_)
    before its name, such as C(drover_reserved_host_memory_mb), with the host in the inventory.
  - Heartbeats and figures of use change at every run and do not count as a change.
options:
  uris:
    description:
      - The libvirt URIs of this inventory host, each a separate compute node. If two of them report
        the same host name, the first keeps it and the URI is appended to the others.
    type: list
    elements: str
    default: ["qemu:///system"]
  nodes:
    description:
      - Compute nodes as data instead of gathering, for fleets that libvirt does not reach and for
        tests.
      - Each is a mapping with C(host) (default O(host)), C(hypervisor_hostname) (default C(host)),
        C(vcpus), C(memory_mb), C(local_gb), C(disk_available_least_gb), C(domains) (a list of
        mappings with uuid, name, state, vcpus, memory_mb, disk_gb, metadata), C(traits), for the
        scheduler C(host_ip), C(hypervisor_type), C(hypervisor_version), C(supported_instances),
        C(cpu_info), C(stats) and C(metrics) (mappings of name to value), C(num_io_ops),
        C(failed_builds), for shared storage C(pools) (a list of mappings with name, path and
        shared_id as M(drover.compute.hypervisor_info) has them), for pinning and passthrough
        C(numa_cells) and C(pci_devices) as that module has them, and any option of this module that
        is about one node. Instead of the figures, C(hypervisor) takes the whole facts of
        M(drover.compute.hypervisor_info).
      - Give all nodes of each named host. With an empty list and O(host), that host has no nodes
        any more. The module removes it from the store, unless an instance or an open migration has
        allocations there.
    type: list
    elements: dict
  host:
    description:
      - The host to record. The default is the inventory host, or the host of C(delegate_to).
    type: str
  exchanged:
    description:
      - Accept another machine for the host. The machine that answers takes its place. Without this
        option discovery refuses another machine than the machine of the last discovery.
      - It is refused too while the store has an instance on the host that the new machine does not
        show, or while an operation is open there. The playbook C(drover.compute.host_replace) sets
        it.
    type: bool
    default: false
  check_migration_trust:
    description:
      - Warn of other hypervisors that SSH on this host cannot reach for migrations, as
        O(drover.compute.hypervisor_info#module:migration_trust) finds it.
      - These are the next 32 hosts after this one in the group C(hypervisors), or in
        C(drover_hypervisors) if that is a group; else of the play. Each has the URI that the store
        has for it.
    type: bool
    default: false
  instances_path:
    description:
      - The folder for the disks of the instances. Its file system is the node's DISK_GB.
      - If it is in a storage pool that other compute nodes share, one resource provider has the
        DISK_GB for all of them.
    type: path
    default: /var/lib/libvirt/images
  reserved_host_cpus:
    description: CPUs kept for the host.
    type: int
    default: 0
  reserved_host_memory_mb:
    description: Memory kept for the host, in MiB, or a size such as V(2GiB).
    type: raw
    default: 512
  reserved_host_disk_mb:
    description: Disk kept for the host, in MiB, or a size such as V(20GiB).
    type: raw
    default: 0
  cpu_allocation_ratio:
    description:
      - The number of vCPUs that one CPU may serve. Without it the stored ratio stays; a new node
        has 4.0.
    type: float
  ram_allocation_ratio:
    description:
      - The same for memory. A new node has 1.0.
    type: float
  disk_allocation_ratio:
    description:
      - The same for disk. A new node has 1.0.
    type: float
  cpu_shared_set:
    description:
      - The CPUs that serve shared vCPUs (VCPU), such as V(0-3,8,^2). By default all CPUs that are
        online, if neither set is given.
    type: str
  cpu_dedicated_set:
    description:
      - The CPUs that serve pinned vCPUs (PCPU). A CPU is in one of the two sets.
      - It does not go with O(reserved_host_cpus). Keep CPUs for the host by leaving them out of
        both sets.
      - With O(cpu_shared_set) alone the host has no pinned vCPU. With neither, pinned vCPUs may be
        on any CPU, and count as VCPU.
    type: str
  vcpu_pin_set:
    description:
      - The former option of Nova for both sets, the CPUs that serve all vCPUs. It does not go with
        them.
    type: str
  reserved_huge_pages:
    description:
      - Pages of NUMA cells that instances do not get, as a list of mappings with C(node) (the
        number of the cell), C(size) (KiB, or with a unit such as V(2MiB)) and C(count), or of texts
        as Nova has them, V(node:0,size:2048,count:64).
      - Huge pages that another program than a domain uses are reserved without it.
    type: raw
  pci_device_specs:
    description:
      - The PCI devices that instances may get, as Nova's C(device_spec). Without it instances get
        no device. The first mapping that matches a device counts.
      - A device matches by C(vendor_id) and C(product_id) (four hexadecimal digits) and by
        C(address) or C(devname), the name of its network interface. C(address) is a pattern such as
        V(0000:3b:*.*), or a mapping of C(domain), C(bus), C(slot) and C(function) to regular
        expressions. The address of a physical function also means its virtual functions.
      - C(physical_network), C(trusted), C(remote_managed), C(managed) and C(live_migratable) are
        tags that requests compare. C(resource_class) and C(traits) are for
        O(pci_report_in_placement). C(one_time_use) needs it too. After an instance has had such a
        device, the provider of the device is reserved until an operator sets C(reserved) to 0.
    type: list
    elements: dict
  pci_report_in_placement:
    description:
      - True if these devices are resource providers below the provider of the compute node, one for
        each physical function with its virtual functions and for each other device, with the
        resource class C(CUSTOM_PCI_VENDOR_PRODUCT) or the class in the mapping. Devices with a
        C(physical_network) are left out.
    type: bool
    default: false
  numa_report_in_placement:
    description:
      - True if each NUMA cell is a resource provider below the provider of the compute node, with
        the trait C(HW_NUMA_ROOT). The providers of devices are then below their cell. With
        C(same_subtree) a request can ask for devices of one cell.
      - CPUs and memory stay with the provider of the compute node, as in Nova.
    type: bool
    default: false
  mdev_types:
    description:
      - The types of mediated devices, such as virtual GPUs, that may be made for instances, as a
        list of names of types or of mappings.
      - Such a mapping has C(type), C(device_addresses) (PCI addresses; without them the type holds
        for all devices that no other mapping names), C(mdev_class) (the resource class, V(VGPU) if
        it is missing) and C(max_instances) (at most so many of this type on the host).
      - Each device that makes them is a resource provider below the provider of the compute node.
        Its total is the number of devices of that type that exist and that can still be made.
    type: list
    elements: raw
  availability_zone:
    description:
      - The availability zone of the host. If needed, an aggregate of that name is created. A host
        is in one zone.
    type: str
  labels:
    description:
      - The labels of the host, by which the option C(selector) selects it, such as C(rack) with the
        value V("7"). The key and the value of a label have 1 to 63 letters, digits and C(-), C(_),
        C(.), C(/), with a letter or digit at both ends. At most 64.
      - These are all labels that it has. Without this option it has none.
    type: dict
  cell:
    description:
      - The site or failure domain of the host. Alternates of a selection are in the same cell.
    type: str
  migration_uri:
    description:
      - The URI by which other hypervisors reach the libvirt of this one for migration.
      - The default is C(qemu+ssh://root@HOST/system) with the name of the host in the inventory,
        not with the name that the host reports. If the name in the inventory is neither a host name
        nor an address, there is no URI, and a warning.
      - The store keeps it, and moves read it there. A new value counts from the next discovery of
        the host on.
    type: str
  migration_address:
    description:
      - The address to which a migration sends memory, if it is not the address of the host name.
    type: str
  probe_kvm:
    description:
      - Start a tiny guest with KVM if it is offered, and warn if that fails, see
        M(drover.compute.hypervisor_info). Not with O(domain_type=qemu).
    type: bool
    default: false
  domain_type:
    description: The domain type of instances on this host, V(kvm) or V(qemu). By default the best
      that it offers.
    type: str
  cpu:
    description:
      - The CPU of instances on this host, with C(mode) (V(custom), V(host-model),
        V(host-passthrough), V(maximum)) and, with V(custom), C(model); or V(fleet), see
        M(drover.compute.fleet_cpu). With KVM the default is V(host-model).
    type: raw
  shared_pools:
    description:
      - Storage pools that other hosts see too, if neither libvirt nor the kernel can recognise
        this.
      - Either a list of names of pools, V([san]), or a mapping of a name to an id. Pools of several
        hosts with the same name, or the same id if one is given, are one pool. Its size is counted
        once for all of them.
      - Pools of the types C(netfs), C(rbd), C(gluster), C(iscsi) and C(iscsi-direct) and folders on
        NFS, CephFS, GlusterFS, SMB, Lustre, GFS2 and OCFS2 are recognised without it. A declaration
        here overrides that.
      - A name without a pool on the host gives a warning.
    type: raw
  shared_block_devices:
    description:
      - Paths of block devices that mean the same device on all hosts that declare them, as patterns
        such as V(/dev/mapper/san-*).
      - A device with a worldwide name (WWID) is recognised without it. A device with a path that
        both hosts declare counts as the same without proof.
    type: list
    elements: str
  storage_pools:
    description:
      - Libvirt storage pools of this host that have disks of instances, besides the storage of
        O(instances_path). The space of each is a resource provider with a resource class of its
        own, C(CUSTOM_DISK_GB_NAME), in GiB.
      - Each item is the name of a pool, or a mapping with C(name), C(traits) (such as
        V(STORAGE_DISK_SSD) or V(CUSTOM_FAST)), C(allocation_ratio) (by default the stored one,
        V(1.0) at first) and C(reserved_gb) (GiB that instances do not get).
      - A pool that several hosts see is counted once for all of them, see O(shared_pools). Give it
        the same name on all these hosts.
      - A name without a pool on the host gives a warning.
    type: list
    elements: raw
  ip_pools:
    description:
      - Pools of routed IPv4 addresses for instances on this host. Each becomes one resource
        provider for all hosts that name it.
      - All hosts of a pool must define the same addresses.
    type: list
    elements: dict
    suboptions:
      name:
        description: The name of the pool.
        type: str
        required: true
      addresses:
        description:
          - Networks such as V(10.0.0.0/24) (only their addresses of hosts count), ranges such as
            V(10.0.0.10-10.0.0.20), and single addresses.
        type: list
        elements: str
        required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - It shows the instances of the host with their states and sizes, and the inventories of its
        compute nodes. Figures of use are left out.
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Record the fleet
  hosts: hypervisors
  gather_facts: false
  tasks:
    - name: Gather and record
      drover.compute.compute_node:
        reserved_host_memory_mb: 2048
        availability_zone: a

- name: Record hosts that are known as data only
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Record two hosts
      drover.compute.compute_node:
        nodes:
          - host: rack1-a
            vcpus: 64
            memory_mb: 262144
            local_gb: 2000
          - host: rack1-b
            vcpus: 64
            memory_mb: 262144
            local_gb: 2000
            cpu_allocation_ratio: 2.0

- name: Remove a host from the store
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Remove its compute nodes
      drover.compute.compute_node:
        host: rack1-b
        nodes: []

- name: Record hosts whose disks are in one pool, with the addresses that they route
  hosts: hypervisors
  gather_facts: false
  tasks:
    - name: Gather and record
      drover.compute.compute_node:
        shared_pools: [san]
        storage_pools:
          - archive
          - {name: fast, traits: [STORAGE_DISK_SSD], allocation_ratio: 1.5}
        ip_pools:
          - name: floating
            addresses: [192.0.2.0/25, 192.0.2.130-192.0.2.140]
"""

RETURN = r"""
occupants:
  description:
    - Instances on the host, or on the way to it, by the present answer of the host and not by the
      store.
    - C(shut_off) has the domains that are shut off and C(running) all others, each with C(uuid),
      C(name), C(state) and C(host), the recorded host. A domain that libvirt cannot describe counts
      as running, with the state V(unknown). C(arriving) has instances with an open migration to the
      host and instances that are being built there, with C(uuid), C(name) and C(source).
    - The host is empty if all three lists are empty.
  returned: when the host was read, not with O(nodes)
  type: dict
  sample:
    running: [{uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01, name: web-1, state: running, host: kvm1}]
    shut_off: []
    arriving: []
machines:
  description: The machine that the store had for the host, as C(before), and the one that it has
    now, as C(after), for people.
  returned: with O(exchanged)
  type: dict
  sample: {before: host_uuid 4c4c4544-0038-3010-8052-b4c04f4d4d32, after: host_uuid
    4c4c4544-0044-4710-8054-b8c04f4d4d32}
nodes:
  description: The number of recorded compute nodes.
  returned: success
  type: int
  sample: 1
instances:
  description: The number of domains on these compute nodes.
  returned: success
  type: int
  sample: 1
added:
  description: New compute nodes.
  returned: success
  type: list
  elements: str
  sample: [kvm1]
removed:
  description: Compute nodes that were removed, because their host no longer reports them and they
    have no allocations.
  returned: success
  type: list
  elements: str
  sample: [kvm1]
unreported:
  description: Compute nodes that their host no longer reports, but that still have allocations.
  returned: success
  type: list
  elements: str
  sample: [kvm2]
adopted:
  description: Names of instances that are new in the store.
  returned: success
  type: list
  elements: str
  sample: [web1]
moved:
  description: Names of instances that are on another host than recorded.
  returned: success
  type: list
  elements: str
  sample: [web1]
went_down:
  description:
    - Instances that ran when the host went down and are off since it came back, each with C(uuid)
      and C(name). A start, a stop or a removal by a command ends that.
  returned: success
  type: list
  elements: dict
  sample: [{uuid: f9639148-e40a-430f-a45c-3ed54ff79954, name: web1}]
missing:
  description: Names of instances that their host no longer shows. Their allocations are kept.
  returned: success
  type: list
  elements: str
  sample: [app21, app22]
cleared:
  description: Names of instances that were evacuated from this host and are gone from it. Their
    allocations here are deleted.
  returned: success
  type: list
  elements: str
  sample: [web1]
stale:
  description: Names of instances that were evacuated from this host and are still defined here,
    shut off.
  returned: success
  type: list
  elements: str
  sample: [web1]
doubled:
  description:
    - Domains that more than one compute node shows, with their state on each.
    - If C(one_machine) is true, all these nodes have the same C(host_uuid), so that one machine is
      in the inventory under several names.
  returned: success
  type: list
  elements: dict
  sample: [{uuid: 6695eb01-f6a4-8304-79aa-97f2502e193f, name: test, nodes: [kvm1, kvm2, kvm3],
    states: {kvm1: running, kvm2: running,
    kvm3: running}, one_machine: false}]
"""
