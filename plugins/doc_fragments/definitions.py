# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of definitions. Made by make pages. Do not edit."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragment ``drover.compute.definitions``."""

    DOCUMENTATION = r"""
options:
  path:
    description:
    - A YAML file with definitions. A relative path is relative to the folder in which the playbook is started, else to the
      playbook's own folder.
    - It has the sections C(instances), as O(instances), and C(server_groups), as O(server_groups).
    - 'C(flavors) is a list of mappings. Flavors: sizes and requirements with a name. C(place) keeps them in the store.'
    - C(flavors.name) (text, required). Its name. It is recorded with the instance.
    - C(flavors.vcpus) (whole number from 1, required). Virtual CPUs.
    - C(flavors.memory_mb) (MiB, or a size, required). Memory in MiB, or a size such as C(4GiB).
    - 'C(flavors.disk_gb) (GiB, or a size). The disk in GiB, or a size such as C(1T). By default 0: the instance has only
      the disks that it names.'
    - C(flavors.extra_specs) (mapping). Requirements by Nova's names, such as C(trait:CUSTOM_SSD), C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd).
      In the store, a key with the value null is removed, and keys that are not named stay.
    - 'C(images) is a list of mappings. Images: properties with a name. C(place) keeps them in the store.'
    - C(images.name) (text, required). Its name.
    - 'C(images.source) (text). Where the image comes from: a URL, or a path.'
    - 'C(images.checksum) (text). Of the source: C(sha256:) or C(sha512:) and the digits.'
    - C(images.disk_format) (text). The format of its file, for a pre-filter of the scheduler.
    - C(images.properties) (mapping). Its properties by Nova's names, for host filters such as ImagePropertiesFilter. In the
      store, a key with the value null is removed, and keys that are not named stay.
    - C(aggregates) is a list of mappings. Host aggregates. C(place) keeps them in the store.
    - C(aggregates.name) (text, required). Its name.
    - C(aggregates.hosts) (list of texts). Hosts that are in it. Hosts that are not named stay.
    - C(aggregates.remove_hosts) (list of texts). Hosts that are taken out of it.
    - C(aggregates.metadata) (mapping). Its metadata, which host filters read. C(availability_zone) is the zone of its hosts.
      In the store, a key with the value null is removed, and keys that are not named stay.
    type: path
  instances:
    description:
    - The instances. As data in place of O(path).
    - C(name) (text, required). Its name. No C(/) and no control characters.
    - 'C(count) (whole number from 1 to 10000). So many equal instances. They are named NAME-1, NAME-2 and so on. C(place)
      does not write their hosts and uuids into the file: the store knows each by its name.'
    - 'C(flavor) (text or mapping). The name of a flavor of the file or of the store, or a flavor in place: sizes and extra
      specs.'
    - C(flavor.name) (text, required). Its name. It is recorded with the instance.
    - C(flavor.vcpus) (whole number from 1). Virtual CPUs.
    - C(flavor.memory_mb) (MiB, or a size). Memory in MiB, or a size such as C(4GiB).
    - 'C(flavor.disk_gb) (GiB, or a size). The disk in GiB, or a size such as C(1T). By default 0: the instance has only the
      disks that it names.'
    - C(flavor.extra_specs) (mapping). Requirements by Nova's names, such as C(trait:CUSTOM_SSD), C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd).
    - C(vcpus) (whole number from 1). Virtual CPUs. By default those of the flavor; without a flavor 1.
    - C(memory_mb) (MiB, or a size). Memory in MiB, or a size such as C(4GiB). Required without a flavor.
    - C(disk_gb) (GiB, or a size). The size of its first disk in GiB, or a size such as C(1T), if C(disks) does not say it.
      By default that of the flavor. An instance without C(disks) has one disk of this size; with 0 it has none.
    - C(disks) (list of mappings). Its disks, in the order vda, vdb and so on.
    - 'C(disks.size_gb) (GiB, or a size). Its size in GiB, or a size such as C(2T). The first disk may do without it: then
      C(disk_gb) or the flavor says it.'
    - C(disks.image) (text). A file on the hypervisor that is the backing file of the disk.
    - C(disks.image_format) (text). The format of C(image). The default is C(qcow2).
    - C(disks.path) (text). The path of its file. By default it is a file in the folder C(drover_instances_path).
    - C(networks) (list of mappings). Its network interfaces.
    - C(networks.bridge) (text). A bridge of the hypervisors. Give this or C(network).
    - C(networks.network) (text). A network of libvirt. Give this or C(bridge).
    - C(networks.mac) (text). Its MAC address. By default libvirt makes one.
    - C(networks.model) (text). The model of the network card. The default is C(virtio).
    - 'C(image) (text or mapping). The image: its name under C(images) or in the store, or a mapping with name and properties.
      Host filters read its properties. The content of a disk comes from C(image) of the disk.'
    - C(image.name) (text). Its name.
    - C(image.id) (text). Its id, for IsolatedHostsFilter.
    - C(image.disk_format) (text). The format of its file, for a pre-filter of the scheduler.
    - C(image.properties) (mapping). Its properties by Nova's names, for host filters such as ImagePropertiesFilter.
    - C(extra_specs) (mapping). Requirements by Nova's names, such as C(trait:CUSTOM_SSD), C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd).
      They override those of the flavor.
    - C(resources) (mapping). Amounts of other resource classes, such as C(VGPU) or classes of your own.
    - C(traits) (mapping). Traits that its host must have or must not have.
    - C(traits.required) (list of texts). Traits that its host must have.
    - C(traits.forbidden) (list of texts). Traits that its host must not have.
    - C(server_group) (text or mapping). The name of a server group of the file or of the store, or a server group in place.
    - C(server_group.name) (text, required). Its name.
    - 'C(server_group.policy) (C(affinity), C(anti-affinity), C(soft-affinity), C(soft-anti-affinity), required). C(anti-affinity):
      its members are on different hosts. C(affinity): they are on one host. The soft policies only prefer such hosts.'
    - C(server_group.max_server_per_host) (whole number from 1). The most members on one host, with the policy C(anti-affinity)
      only. The default is 1.
    - C(availability_zone) (text). The zone that it must be in.
    - C(hints) (mapping). Hints for the scheduler.
    - C(hints.same_host) (text or list). The host of one of these instances, each a name or a uuid.
    - C(hints.different_host) (text or list). Another host than these instances have, each a name or a uuid.
    - C(hints.query) (text or list). A JSON query, for JsonFilter.
    - 'C(hints.build_near_host_ip) (text or list). An IP address: a host near it, for SimpleCIDRAffinityFilter.'
    - C(hints.cidr) (text or list). The network of C(build_near_host_ip). The default is C(/24).
    - C(hints.group) (text or list or mapping). As C(server_group).
    - C(requested_destination) (mapping). Where it shall be.
    - C(requested_destination.host) (text). The only host that it may be on. Host filters may still reject it.
    - C(requested_destination.node) (text). The only compute node that it may be on.
    - C(requested_destination.cell) (text). The cell that a move prefers.
    - C(requested_destination.allow_cross_cell_move) (true or false). Whether a move may leave the cell.
    - C(ignore_hosts) (text or list). Hosts that it must not be on.
    - C(force_hosts) (text or list). The only hosts that it may be on. Only room, zone and the status of the host are checked.
    - C(force_nodes) (text or list). The only compute nodes that it may be on. Only room, zone and the status are checked.
    - C(scheduler) (mapping). Keys of the policy for this instance only.
    - C(project) (text). Its project. It is recorded, and some host filters read it.
    - C(user) (text). Its user. It is recorded.
    - C(cloud_init) (mapping). Data for cloud-init. A seed image is made and attached.
    - C(cloud_init.user_data) (text or mapping). The user data. A mapping, or a text as cloud-init reads it.
    - C(cloud_init.meta_data) (text or mapping). The meta data. A mapping, or a text as cloud-init reads it.
    - C(cloud_init.network_config) (text or mapping). The network configuration. A mapping, or a text as cloud-init reads
      it.
    - C(autostart) (true or false). Whether libvirt starts it with its host.
    - C(policy) (mapping). The rules for its moves.
    - 'C(policy.move) (C(never), C(cold), C(live)). C(never): it is not moved. C(cold): it is shut off for the move and started
      again after it. C(live): it is moved only while it runs. By default a running instance moves live, and one that is off
      moves cold.'
    - 'C(policy.on_drain) (C(shutdown)). C(shutdown): a drain shuts it down where it is, and does not move it.'
    - C(policy.priority) (whole number from -1000000 to 1000000). Instances with a higher number move first. The default is
      0.
    - C(policy.migration) (mapping). Options of its moves. They override those of C(drover_migration).
    - C(policy.migration.bandwidth_mib) (whole number from 1). As this option of moves.
    - C(policy.migration.parallel_connections) (whole number from 2). As this option of moves.
    - C(policy.migration.auto_converge) (true or false). As this option of moves.
    - C(policy.migration.post_copy) (true or false). As this option of moves.
    - C(policy.migration.tls) (true or false). As this option of moves.
    - C(policy.migration.tunnelled) (true or false). As this option of moves.
    - C(policy.migration.compression) (C(xbzrle), C(zlib), C(zstd)). As this option of moves.
    - C(policy.migration.max_downtime_ms) (whole number from 1). As this option of moves.
    - C(policy.migration.timeout_per_gib) (whole number from 1). As this option of moves.
    - C(policy.migration.on_timeout) (C(abort), C(post_copy), C(pause), C(shutdown)). As this option of moves.
    - C(policy.migration.copy_storage) (C(auto), C(never), C(always)). As this option of moves.
    - C(labels) (mapping). Its labels.
    - C(domain_type) (C(kvm), C(qemu)). The type of its domain. By default the best that its host offers.
    - C(cpu) (mapping). Its CPU. By default C(host-model) with KVM.
    - C(cpu.mode) (C(custom), C(host-model), C(host-passthrough), C(maximum)). The mode, as in libvirt.
    - C(cpu.model) (text). The model, with the mode C(custom). C(virsh cpu-models x86_64) lists them.
    - 'C(state) (C(present), C(absent)). C(absent): it was removed, and C(place) does not build it.'
    - C(host) (text). Its host. C(place) writes it; C(requested_destination) asks for one.
    - C(uuid) (text). Its uuid. C(place) writes it.
    type: list
    elements: dict
  server_groups:
    description:
    - Server groups. C(place) keeps them in the store. As data in place of O(path).
    - C(name) (text, required). Its name.
    - 'C(policy) (C(affinity), C(anti-affinity), C(soft-affinity), C(soft-anti-affinity), required). C(anti-affinity): its
      members are on different hosts. C(affinity): they are on one host. The soft policies only prefer such hosts.'
    - C(max_server_per_host) (whole number from 1). The most members on one host, with the policy C(anti-affinity) only. The
      default is 1.
    - C(max_moving) (whole number from 1). The most members that move at the same time, over all runs. By default there is
      no limit.
    type: list
    elements: dict
    default: []
"""
