#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: hypervisor_info
short_description: Read the facts of a hypervisor and its domains from libvirt
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads the CPUs, NUMA cells, memory, storage, networks, devices and supported guests of a
    hypervisor, and all its domains, and returns them as plain data.
  - On the hypervisor it only writes digests of backing images of disks on shared storage, below
    C(/var/lib/drover). It changes nothing in the store. Use M(drover.compute.compute_node) to
    record the same facts in the store.
  - It fails if libvirt accepts no connection within 30 seconds, or if the whole reading takes
    longer than two minutes.
  - The number of calls to libvirt does not grow with the number of domains, except for the XML of
    each domain and, if the URI names another machine, the disk sizes of domains that are shut off;
    libvirt has no bulk call for these.
options:
  instances_path:
    description:
      - The folder that holds the disks of the instances; RV(hypervisor.storage) describes its file
        system.
      - On the hypervisor the module reads the nearest existing parent. If O(uri) names another
        machine, the module reads the running storage pool that covers the path.
    type: path
    default: /var/lib/libvirt/images
  probe_kvm:
    description:
      - If KVM is offered, start a tiny paused guest with it, with the settings of the role
        P(drover.compute.place#role), without disks and networks, and destroy it. RV(hypervisor.kvm)
        has the result.
      - In virtual machines KVM may be offered although no guest starts with it.
    type: bool
    default: false
  probe_cpu:
    description: The CPU of that guest, as in the variable C(drover_cpu).
    type: dict
    suboptions:
      mode:
        description: The mode of the CPU.
        type: str
        choices: [custom, host-model, host-passthrough, maximum]
        default: host-model
      model:
        description: The model, with the mode V(custom).
        type: str
  shared_pools:
    description:
      - Names of storage pools that other hosts see too, but that this host cannot recognise, such
        as a pool on a SAN.
      - The module reads local backing images of disks in these pools, so that hosts can compare
        them.
    type: list
    elements: str
    default: []
  migration_trust:
    description:
      - Look if SSH here has a key and knows the host keys of other hypervisors, because migrations
        to them need both. A warning names the missing parts. The module only reads files of this
        host and connects to no other. So a key that another host refuses is not seen. The playbook
        C(drover.compute.migration_trust) connects.
      - It looks for the account that the module runs as.
    type: dict
    suboptions:
      host:
        description: The name of this host, for the warning.
        type: str
        required: true
      peers:
        description: The other hosts, with C(host) and C(uri), the libvirt URI by which they are
          reached. Other transports than SSH are left out.
        type: list
        elements: dict
        required: true
        suboptions:
          host:
            description: Its name, for the warning.
            type: str
            required: true
          uri:
            description: The libvirt URI, or null to leave it out.
            type: str
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.info_module
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute.compute_node
  - module: drover.compute.domain
"""

EXAMPLES = r"""
- name: Read the hypervisors
  hosts: hypervisors
  gather_facts: false
  tasks:
    - name: Read all facts
      drover.compute.hypervisor_info:
        instances_path: /var/lib/libvirt/images
      register: facts

    - name: Check that a guest starts with KVM
      drover.compute.hypervisor_info:
        probe_kvm: true
      register: probed

    - name: Show it
      ansible.builtin.debug:
        var: probed.hypervisor.kvm

    - name: Show which domains run here
      ansible.builtin.debug:
        msg: "{{ facts.hypervisor.domains | selectattr('state', 'eq', 'running') | map(attribute='name') | list }}"

- name: Read libvirt's test driver, which needs no hypervisor
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read the fake host
      drover.compute.hypervisor_info:
        uri: test:///default
"""

RETURN = r"""
hypervisor:
  description: The hypervisor. The unit of a size is at the end of its key; C(mb) means MiB and
    C(gb) means GiB.
  returned: success
  type: dict
  contains:
    uri:
      description: The URI that was read.
      type: str
      returned: always
      sample: qemu:///system
    hypervisor_hostname:
      description: The name of the host in libvirt.
      type: str
      returned: always
      sample: kvm1
    hypervisor_type:
      description: The type of the driver; QEMU also stands for KVM.
      type: str
      returned: always
      sample: QEMU
    hypervisor_version:
      description: Version of the hypervisor, major * 1000000 + minor * 1000 + release.
      type: int
      returned: always
      sample: 7002011
    libvirt_version:
      description: Version of libvirt in the same form.
      type: int
      returned: always
      sample: 9000000
    host_uuid:
      description: The host's uuid in libvirt, or null if the driver has none.
      type: str
      returned: always
      sample: 4c4c4544-0038-3010-8052-b4c04f4d4d32
    system_uuid:
      description: The uuid of the system that read the facts, from its settings of libvirt or else
        its firmware. Null if it has none.
      type: str
      returned: always
      sample: 4c4c4544-0038-3010-8052-b4c04f4d4d32
    firmware_uuid:
      description: The uuid of the firmware (SMBIOS) of the system that read the facts. Null if it
        has none, or only root can read it.
      type: str
      returned: always
      sample: 4c4c4544-0038-3010-8052-b4c04f4d4d32
    machine_id:
      description: The machine id of the system that read the facts, of C(/etc/machine-id). Null if
        it has none.
      type: str
      returned: always
      sample: 8d1f6c0b2f1a4c7e9a3b5d7f9e1c3a5b
    boot_id:
      description: The id of the boot of the system that read the facts. Each boot has another one.
        Null for a host that is reached by a URI.
      type: str
      returned: always
      sample: 5cf3a1e6-6bd0-4f1c-9d6f-4b2f6c8f7a10
    reboot_sign:
      description:
        - Why the host needs a reboot, by C(/run/reboot-required), C(/run/reboot-needed) and the
          installed kernels. Null if they show no need, and for a host that is reached by a URI. A
          rolling maintenance also asks the tool of the system, such as dnf.
      type: str
      returned: always
      sample: kernel 6.1.0-27-amd64 runs, and 6.1.0-28-amd64 is installed
    cpu:
      description:
        - The host's CPU.
        - C(count) is the number of CPUs that are online, C(online) their numbers.
      type: dict
      returned: always
      sample:
        arch: x86_64
        count: 2
        features: [aes, apic]
        mhz: 2000
        model: EPYC
        online: [0, 1]
        topology: {cells: 1, cores: 2, sockets: 1, threads: 1}
        vendor: AMD
    memory_mb:
      description: The host's memory.
      type: int
      returned: always
      sample: 24576
    memory_used_mb:
      description: Memory in use, without buffers and caches; null if the driver does not report it.
      type: int
      returned: always
      sample: 2112
    numa_cells:
      description:
        - The NUMA cells with their memory, CPUs, distances and the number of pages of each size.
        - Of a CPU, C(socket), C(die), C(cluster) and C(core) are null if libvirt does not know
          them. A CPU that is offline has no C(siblings).
        - Of a page size, C(count) is the number of pages and C(free) the number of free ones, null
          if it is unknown. The smallest size has the memory that is in no huge page; C(free) of it
          is without the page cache.
      type: list
      elements: dict
      returned: always
      sample:
        - id: 0
          memory_mb: 24576
          cpus:
            - {id: 0, socket: 0, die: 0, cluster: 0, core: 0, siblings: [0, 1]}
            - {id: 1, socket: 0, die: 0, cluster: 0, core: 0, siblings: [0, 1]}
          distances: [{id: 0, value: 10}]
          pages:
            - {size_kb: 4, count: 5767168, free: 3120000}
            - {size_kb: 2048, count: 1024, free: 512}
    storage:
      description:
        - The file system of O(instances_path).
        - C(disk_available_least_gb) is the free space if every image grew to its full size; it may
          be negative, and is null if the free space is unknown.
        - C(shared_id) is the origin of a network or cluster file system, and the folder in it. It
          is the same on each host that sees it, and null if the path is not on such a file system,
          or if O(uri) names another machine.
        - C(folder_id) is the number of the file system and the number of the folder in it. Two
          hosts with the same one may see one folder. It is null where that is not known.
      type: dict
      returned: always
      sample:
        disk_available_least_gb: 55
        folder_id: b12c941a2c5c46dd/1314
        free_gb: 60
        instances_path: /var/lib/libvirt/images
        shared_id: null
        total_gb: 100
        used_gb: 40
    pools:
      description:
        - The storage pools.
        - C(shared_id) is the origin of a pool's storage for the shared types V(netfs), V(rbd),
          V(gluster), V(iscsi) and V(iscsi-direct), and for a V(dir) or V(fs) pool on a network or
          cluster file system. It is null for the others.
        - C(folder_id) is the id of its folder, as in RV(hypervisor.storage).
      type: list
      elements: dict
      returned: always
      sample:
        - allocation_gb: 40.1
          autostart: true
          available_gb: 60.2
          capacity_gb: 100.3
          folder_id: b12c941a2c5c46dd/1314
          name: default
          path: /var/lib/libvirt/images
          persistent: true
          shared_id: null
          state: running
          type: dir
          uuid: 2d9bb2f4-3b4f-4a5b-8b1c-111111111111
    mounts:
      description:
        - Mounted network and cluster file systems, and other file systems that are mounted below
          them, with their origin C(shared_id), as in RV(hypervisor.storage). Null if O(uri) names
          another machine.
      type: list
      elements: dict
      returned: always
      sample: [{path: /srv/vms, shared_id: "nfs:filer:/vms"}]
    addresses:
      description: The IP addresses at which others may see the host. Null if O(uri) names another
        machine.
      type: list
      elements: str
      returned: always
      sample: [192.0.2.11, "2001:db8::11"]
    block_devices:
      description:
        - The block devices with a worldwide name, C(id), and their paths here. Null if O(uri) names
          another machine.
      type: list
      elements: dict
      returned: always
      sample: [{id: naa.600140512345678, names: [/dev/disk/by-id/wwn-0x600140512345678, /dev/sdb]}]
    images:
      description:
        - The digests of local backing images of disks on shared storage, with their size and times
          of change at the time of reading. The digest of a large image comes with a later call.
          Null if O(uri) names another machine.
      type: list
      elements: dict
      returned: always
      sample: [{path: /var/lib/libvirt/images/debian-12.qcow2, digest: 5f0c6a3e..., size:
        2361393152,
                modified: "1700000000.000000000", changed: "1700000000.000000000"}]
    networks:
      description: The virtual networks.
      type: list
      elements: dict
      returned: always
      sample: [{active: true, bridge: virbr0, name: default, uuid:
        2d9bb2f4-3b4f-4a5b-8b1c-222222222222}]
    supported_instances:
      description: Triples of architecture, domain type and operating system type that can run here.
      type: list
      elements: list
      returned: always
      sample: [[x86_64, kvm, hvm]]
    guest_hardware:
      description:
        - Hardware for guests of the host's own architecture, lists of words C(firmware),
          C(secure_boot) (V(yes) if there is firmware with it), C(tpm_models) and C(tpm_versions) of
          an emulated TPM, C(video_models) and C(disk_buses).
        - Null if libvirt does not report it.
      type: dict
      returned: always
      sample: {disk_buses: [virtio, scsi, sata], firmware: [efi], secure_boot: ["yes", "no"],
        tpm_models: [tpm-tis, tpm-crb], tpm_versions: ["2.0"],
               video_models: [vga, virtio]}
    host_model:
      description:
        - The CPU that C(host-model) stands for, of guests of the best domain type that the host
          offers. C(features) has all features that a live migration can take along, also the
          features of the model.
        - Null if libvirt does not report it.
      type: dict
      returned: always
      sample: {arch: x86_64, type: kvm, vendor: Intel, model: Haswell-noTSX, features: [aes, avx,
        vme]}
    kvm:
      description:
        - C(offered) is true if KVM is offered, C(works) if a guest started with it (null if not
          known), C(message) is the error.
      returned: with O(probe_kvm)
      type: dict
      sample: {message: failed to set MSR 0x10a to 0x0, offered: true, works: false}
    pci_devices:
      description:
        - The PCI devices.
        - C(dev_type) is V(type-PF) for a device that can have virtual functions, V(type-VF) for a
          virtual function, V(vdpa) for a virtual function with a vDPA device (its file is C(vdpa)),
          and V(type-PCI) for all others. C(parent_addr) is the physical function of a virtual one.
        - C(iommu_group_members) are the devices of its IOMMU group, itself included, which only one
          guest can have together.
        - C(interface) and C(mac) name its network interface on the host. C(numa_node) is null if it
          is unknown.
      type: list
      elements: dict
      returned: always
      sample:
        - address: "0000:3b:00.0"
          class: "020000"
          dev_type: type-PF
          driver: i40e
          interface: ens1f0
          iommu_group: 40
          iommu_group_members: ["0000:3b:00.0"]
          mac: 3c:fd:fe:9e:11:20
          max_virtual_functions: 64
          name: pci_0000_3b_00_0
          numa_node: 0
          parent_addr: null
          product: Ethernet Controller X710 for 10GbE SFP+
          product_id: "1572"
          vdpa: null
          vendor: Intel Corporation
          vendor_id: "8086"
          virtual_functions: ["0000:3b:02.0", "0000:3b:02.1"]
    mdev_types:
      description:
        - The types of mediated devices that the devices of the host, C(parent), can make.
        - C(available_instances) counts down as they are made. A device often makes one type only at
          a time.
      type: list
      elements: dict
      returned: always
      sample:
        - available_instances: 14
          device_api: vfio-pci
          name: GRID M60-0B
          parent: pci_0000_84_00_0
          type: nvidia-11
    mdev_devices:
      description:
        - The mediated devices. If C(active) is false, the device is defined in libvirt and does not
          exist at present.
      type: list
      elements: dict
      returned: always
      sample:
        - active: true
          iommu_group: 112
          name: mdev_4b20d080_1b54_4048_85b3_a6a62d165c01_0000_84_00_0
          parent: pci_0000_84_00_0
          type: nvidia-11
          uuid: 4b20d080-1b54-4048-85b3-a6a62d165c01
    missing_drivers:
      description:
        - The drivers of libvirt that the host lacks, of V(storage), V(nodedev), V(secret),
          V(network), V(interface) and V(nwfilter). C(package) is the missing package; if the
          distribution of the host is unknown, the packages of several distributions. With split
          daemons C(daemon) is the one that does not run, else it is null. Empty for hypervisors
          that have them built in, such as libvirt's test driver.
      type: list
      elements: dict
      returned: always
      sample: [{driver: storage, package: libvirt-daemon-driver-storage, daemon: null}]
    missing_pool_types:
      description: The types of storage pools that the host cannot have, with the package of each.
        Null if libvirt does not report it.
      type: dict
      returned: always
      sample: {gluster: libvirt-daemon-driver-storage-gluster, rbd:
        libvirt-daemon-driver-storage-rbd}
    untold_domains:
      description: The uuids and names of domains that libvirt lists but does not describe. They may
        run.
      type: list
      elements: dict
      returned: always
      sample: [{uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01, name: web-1}]
    domains:
      description:
        - The domains, sorted by name.
        - C(state) is one of C(running), C(blocked), C(paused), C(shutdown), C(shutoff), C(crashed),
          C(pmsuspended) and C(nostate).
        - C(vcpus) is the maximum. C(vcpus) and C(memory_mb) are of the next start, C(running_vcpus)
          and C(running_memory_mb) of the running domain, with plugged CPUs and memory; null if it
          does not run. C(metadata) is drover's own metadata in the domain.
        - C(xml) is the definition for the next start of the domain.
        - C(hostdevs) are the devices of the host that the domain has, with C(type) and C(address),
          also those of its interfaces of the types C(hostdev) and C(vdpa). The address of a
          mediated device is its uuid.
        - C(numa) is null, or the ties of the CPUs and the memory to the host, as the domain runs.
          C(cpuset) are the host's CPUs for vCPUs without a pin. C(cells) are the guest's, with the
          mode and the host cells C(nodes) of their memory. C(pages) are huge pages with C(size_kb),
          null for the default size of the host, and the cells of the guest that have them, none for
          all. C(next_start_cpus) are CPUs that the definition of a running domain pins and that it
          does not run on now.
        - Of a disk, C(path) is its file or device, C(real_path) the same without symbolic links,
          C(shared_id) its place on shared storage, C(origin) where a disk comes from that QEMU
          reaches by the network, and C(chain) its backing chain, as read from the headers of the
          images. Unknown values are null. C(behind_on_network) are the images of Ceph that a file
          is backed by. A local backing image of a disk on shared storage is in
          RV(hypervisor.images).
        - C(disks) are the disks of its next start, C(running_disks) the disks that only the running
          domain has. C(only) is V(next_start) of a disk that the running domain does not have.
        - C(bindings) are the facts that bind it to its host, by both of its definitions. C(what)
          says it in words, C(way_out) is the remedy for a person. C(move) is V(never), V(off) or
          V(live), as it moves not at all, only while it is off, or only while it runs; V(looked_up)
          with the C(address) that its destination has to have. C(evacuation) is V(lost) if no other
          host can start it, else V(starts). C(only) is V(running) or V(next_start) if one of its
          definitions has it, else empty. C(keep_running) says that a shutdown loses something.
        - C(snapshots) says if it has snapshots; C(fixed_snapshots) are the names of snapshots that
          prevent a move, because they are in its image or have its memory. It is null if the
          snapshots cannot be read.
        - C(other_files) has the files, folders and volumes that the domain uses besides the disks
          of its definition, such as UEFI variables, logs, folders shared with the guest, and disks
          that only the running guest, a snapshot or the saved memory has. Their C(type) is V(file),
          V(dir) or V(volume); C(written) says if the domain may write to it. The other keys are the
          same as for a disk.
      type: list
      elements: dict
      returned: always
      sample:
        - uuid: 2d9bb2f4-3b4f-4a5b-8b1c-444444444444
          name: web-1
          title: null
          state: running
          vcpus: 2
          memory_mb: 2048
          running_vcpus: 2
          running_memory_mb: 2048
          persistent: true
          autostart: false
          managed_save: false
          snapshots: false
          fixed_snapshots: []
          disks:
            - allocation_bytes: 200704
              behind_on_network: []
              bus: virtio
              cache: none
              capacity_bytes: 1073741824
              chain: [{path: /srv/vms/debian-12.qcow2, shared_id: "nfs:filer:/vms/debian-12.qcow2"}]
              device: disk
              format: qcow2
              path: /srv/vms/web-1.qcow2
              readonly: false
              shareable: false
              shared_id: nfs:filer:/vms/web-1.qcow2
              source: /srv/vms/web-1.qcow2
              target: vda
              type: file
          other_files:
            - behind_on_network: []
              chain: []
              format: raw
              path: /var/lib/libvirt/qemu/nvram/web-1_VARS.fd
              real_path: /var/lib/libvirt/qemu/nvram/web-1_VARS.fd
              shared_id: null
              source: /var/lib/libvirt/qemu/nvram/web-1_VARS.fd
              type: file
              written: true
          # The addresses that a network of libvirt's own gave it.
          interfaces: [{addresses: [192.168.122.5], mac: "52:54:00:00:00:01", model: virtio, source:
            default, target: vnet0, type: network}]
          hostdevs: [{type: pci, address: "0000:3b:02.1"}]
          bindings: []
          numa:
            cells: [{cpus: [0, 1], id: 0, memory_mb: 2048, mode: strict, nodes: [0]}]
            cpuset: null
            emulator_pins: [2]
            iothread_pins: {}
            locked: false
            memory: {mode: strict, nodes: [0]}
            pages: [{cells: [0], size_kb: 2048}]
            vcpu_pins: {"0": [4], "1": [5]}
          metadata: {project: shop, user: ann}
          xml: <domain type='kvm'>...</domain>
"""


from ansible_collections.drover.compute.plugins.module_utils._domain.definition import CPU_MODES
from ansible_collections.drover.compute.plugins.module_utils._files.limits import within
from ansible_collections.drover.compute.plugins.module_utils._host import kvm_probe
from ansible_collections.drover.compute.plugins.module_utils._host.hypervisor import read_hypervisor
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._migration import reach

#: The time limit of the whole read in seconds.
READ_TIMEOUT = 120


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "instances_path": {"type": "path", "default": "/var/lib/libvirt/images"},
            "probe_kvm": {"type": "bool", "default": False},
            "probe_cpu": {
                "type": "dict",
                "options": {
                    "mode": {"type": "str", "choices": list(CPU_MODES), "default": "host-model"},
                    "model": {"type": "str"},
                },
            },
            "shared_pools": {"type": "list", "elements": "str", "default": []},
            "migration_trust": {
                "type": "dict",
                "options": {
                    "host": {"type": "str", "required": True},
                    "peers": {
                        "type": "list",
                        "elements": "dict",
                        "required": True,
                        "options": {
                            "host": {"type": "str", "required": True},
                            "uri": {"type": "str"},
                        },
                    },
                },
            },
        },
        supports_check_mode=True,
    )
    uri = module.params["uri"]
    doing = f"Reading {uri} from {binding.host_name()}"
    late = (
        f"{doing} took longer than {READ_TIMEOUT} s and was given up: look whether libvirtd or "
        "storage hangs there."
    )
    with module.reading(late, f"{doing} failed") as conn:
        facts = within(
            READ_TIMEOUT,
            lambda: read_hypervisor(
                conn,
                uri,
                module.params["instances_path"],
                module.warn,
                module.params["shared_pools"],
            ),
        )
        if module.params["probe_kvm"]:
            facts["kvm"] = kvm_probe.probe(
                conn, facts["cpu"]["arch"], facts["supported_instances"], module.params["probe_cpu"]
            )
    if module.params["migration_trust"]:
        reach.warn_of_unreached(module, **module.params["migration_trust"])
    module.exit_json(changed=False, hypervisor=facts)


if __name__ == "__main__":
    main()
