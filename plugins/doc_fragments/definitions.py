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
    - 'C(flavors) is a list of mappings. Flavors: sizes and requirements with a name. C(place) keeps them in the store. C(name):
      Its name. It is recorded with the instance. C(vcpus): Virtual CPUs. C(memory_mb): Memory in MiB, or a size such as C(4GiB).
      C(disk_gb): The disk in GiB, or a size such as C(1T). By default 0: the instance has only the disks that it names. C(extra_specs):
      Requirements by Nova''s names, such as C(trait:CUSTOM_SSD), C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd).
      In the store, a key with the value null is removed, and keys that are not named stay.'
    - 'C(images) is a list of mappings. Images: properties with a name. C(place) keeps them in the store. C(name): Its name.
      C(source): Where the image comes from: a URL, or a path. C(checksum): Of the source: C(sha256:) or C(sha512:) and the
      digits. C(disk_format): The format of its file, for a pre-filter of the scheduler. C(properties): Its properties by
      Nova''s names, for host filters such as ImagePropertiesFilter. In the store, a key with the value null is removed, and
      keys that are not named stay.'
    - 'C(aggregates) is a list of mappings. Host aggregates. C(place) keeps them in the store. C(name): Its name. C(hosts):
      Hosts that are in it. Hosts that are not named stay. C(remove_hosts): Hosts that are taken out of it. C(metadata): Its
      metadata, which host filters read. C(availability_zone) is the zone of its hosts. In the store, a key with the value
      null is removed, and keys that are not named stay.'
    type: path
  instances:
    description:
    - The instances. As data in place of O(path).
    type: list
    elements: dict
    suboptions:
      name:
        description:
        - Its name. No C(/) and no control characters.
        type: str
        required: true
      count:
        description:
        - 'So many equal instances. They are named NAME-1, NAME-2 and so on. C(place) does not write their hosts and uuids
          into the file: the store knows each by its name.'
        type: int
      flavor:
        description:
        - 'The name of a flavor of the file or of the store, or a flavor in place: sizes and extra specs.'
        - A mapping has C(name), C(vcpus), C(memory_mb), C(disk_gb), C(extra_specs).
        type: raw
      vcpus:
        description:
        - Virtual CPUs. By default those of the flavor; without a flavor 1.
        type: int
      memory_mb:
        description:
        - Memory in MiB, or a size such as C(4GiB). Required without a flavor.
        type: raw
      disk_gb:
        description:
        - The size of its first disk in GiB, or a size such as C(1T), if C(disks) does not say it. By default that of the
          flavor. An instance without C(disks) has one disk of this size; with 0 it has none.
        type: raw
      disks:
        description:
        - Its disks, in the order vda, vdb and so on.
        type: list
        elements: dict
        suboptions:
          size_gb:
            description:
            - 'Its size in GiB, or a size such as C(2T). The first disk may do without it: then C(disk_gb) or the flavor says
              it.'
            type: raw
          image:
            description:
            - A file on the hypervisor that is the backing file of the disk.
            type: str
          image_format:
            description:
            - The format of C(image). The default is C(qcow2).
            type: str
          path:
            description:
            - The path of its file. By default it is a file in the folder C(drover_instances_path).
            type: str
      networks:
        description:
        - Its network interfaces.
        type: list
        elements: dict
        suboptions:
          bridge:
            description:
            - A bridge of the hypervisors. Give this or C(network).
            type: str
          network:
            description:
            - A network of libvirt. Give this or C(bridge).
            type: str
          mac:
            description:
            - Its MAC address. By default libvirt makes one.
            type: str
          model:
            description:
            - The model of the network card. The default is C(virtio).
            type: str
      image:
        description:
        - 'The image: its name under C(images) or in the store, or a mapping with name and properties. Host filters read its
          properties.'
        - A mapping has C(name), C(id), C(disk_format), C(properties).
        type: raw
      extra_specs:
        description:
        - Requirements by Nova's names, such as C(trait:CUSTOM_SSD), C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd).
          They override those of the flavor.
        type: dict
      resources:
        description:
        - Amounts of other resource classes, such as C(VGPU) or classes of your own.
        type: dict
      traits:
        description:
        - Traits that its host must have or must not have.
        type: dict
        suboptions:
          required:
            description:
            - Traits that its host must have.
            type: list
            elements: str
          forbidden:
            description:
            - Traits that its host must not have.
            type: list
            elements: str
      server_group:
        description:
        - The name of a server group of the file or of the store, or a server group in place.
        - A mapping has C(name), C(policy), C(max_server_per_host).
        type: raw
      availability_zone:
        description:
        - The zone that it must be in.
        type: str
      hints:
        description:
        - Hints for the scheduler.
        type: dict
        suboptions:
          same_host:
            description:
            - The host of one of these instances, each a name or a uuid.
            type: raw
          different_host:
            description:
            - Another host than these instances have, each a name or a uuid.
            type: raw
          query:
            description:
            - A JSON query, for JsonFilter.
            type: raw
          build_near_host_ip:
            description:
            - 'An IP address: a host near it, for SimpleCIDRAffinityFilter.'
            type: raw
          cidr:
            description:
            - The network of C(build_near_host_ip). The default is C(/24).
            type: raw
          group:
            description:
            - As C(server_group).
            type: raw
      requested_destination:
        description:
        - Where it shall be.
        type: dict
        suboptions:
          host:
            description:
            - The only host that it may be on. Host filters may still reject it.
            type: str
          node:
            description:
            - The only compute node that it may be on.
            type: str
          cell:
            description:
            - The cell that a move prefers.
            type: str
          allow_cross_cell_move:
            description:
            - Whether a move may leave the cell.
            type: bool
      ignore_hosts:
        description:
        - Hosts that it must not be on.
        type: raw
      force_hosts:
        description:
        - The only hosts that it may be on. Only room, zone and the status of the host are checked.
        type: raw
      force_nodes:
        description:
        - The only compute nodes that it may be on. Only room, zone and the status are checked.
        type: raw
      scheduler:
        description:
        - Keys of the policy for this instance only.
        type: dict
      project:
        description:
        - Its project. It is recorded, and some host filters read it.
        type: str
      user:
        description:
        - Its user. It is recorded.
        type: str
      cloud_init:
        description:
        - Data for cloud-init. A seed image is made and attached.
        type: dict
        suboptions:
          user_data:
            description:
            - The user data. A mapping, or a text as cloud-init reads it.
            type: raw
          meta_data:
            description:
            - The meta data. A mapping, or a text as cloud-init reads it.
            type: raw
          network_config:
            description:
            - The network configuration. A mapping, or a text as cloud-init reads it.
            type: raw
      autostart:
        description:
        - Whether libvirt starts it with its host.
        type: bool
      policy:
        description:
        - The rules for its moves.
        type: dict
        suboptions:
          move:
            description:
            - 'C(never): it is not moved. C(cold): it is shut off for the move and started again after it. C(live): it is
              moved only while it runs. By default a running instance moves live, and one that is off moves cold.'
            type: str
            choices:
            - never
            - cold
            - live
          on_drain:
            description:
            - 'C(shutdown): a drain shuts it down where it is, and does not move it.'
            type: str
            choices:
            - shutdown
          priority:
            description:
            - Instances with a higher number move first. The default is 0.
            type: int
          migration:
            description:
            - Options of its moves. They override those of C(drover_migration).
            type: dict
            suboptions:
              bandwidth_mib:
                description:
                - As this option of moves.
                type: int
              parallel_connections:
                description:
                - As this option of moves.
                type: int
              auto_converge:
                description:
                - As this option of moves.
                type: bool
              post_copy:
                description:
                - As this option of moves.
                type: bool
              tls:
                description:
                - As this option of moves.
                type: bool
              tunnelled:
                description:
                - As this option of moves.
                type: bool
              compression:
                description:
                - As this option of moves.
                type: str
                choices:
                - xbzrle
                - zlib
                - zstd
              max_downtime_ms:
                description:
                - As this option of moves.
                type: int
              timeout_per_gib:
                description:
                - As this option of moves.
                type: int
              on_timeout:
                description:
                - As this option of moves.
                type: str
                choices:
                - abort
                - post_copy
                - pause
                - shutdown
              copy_storage:
                description:
                - As this option of moves.
                type: str
                choices:
                - auto
                - never
                - always
      labels:
        description:
        - Its labels.
        type: dict
      domain_type:
        description:
        - The type of its domain. By default the best that its host offers.
        type: str
        choices:
        - kvm
        - qemu
      cpu:
        description:
        - Its CPU. By default C(host-model) with KVM.
        type: dict
        suboptions:
          mode:
            description:
            - The mode, as in libvirt.
            type: str
            choices:
            - custom
            - host-model
            - host-passthrough
            - maximum
          model:
            description:
            - The model, with the mode C(custom). C(virsh cpu-models x86_64) lists them.
            type: str
      state:
        description:
        - 'C(absent): it was removed, and C(place) does not build it.'
        type: str
        choices:
        - present
        - absent
      host:
        description:
        - Its host. C(place) writes it; C(requested_destination) asks for one.
        type: str
      uuid:
        description:
        - Its uuid. C(place) writes it.
        type: str
  server_groups:
    description:
    - Server groups. C(place) keeps them in the store. As data in place of O(path).
    type: list
    elements: dict
    suboptions:
      name:
        description:
        - Its name.
        type: str
        required: true
      policy:
        description:
        - 'C(anti-affinity): its members are on different hosts. C(affinity): they are on one host. The soft policies only
          prefer such hosts.'
        type: str
        required: true
        choices:
        - affinity
        - anti-affinity
        - soft-affinity
        - soft-anti-affinity
      max_server_per_host:
        description:
        - The most members on one host, with the policy C(anti-affinity) only. The default is 1.
        type: int
      max_moving:
        description:
        - The most members that move at the same time, over all runs. By default there is no limit.
        type: int
    default: []
"""
