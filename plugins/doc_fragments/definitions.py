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
    - A YAML file with definitions. A relative path is relative to the folder in which
      the playbook is started, else to the playbook's own folder.
    - It has the sections C(instances), as O(instances), and C(server_groups), as O(server_groups).
    - 'C(flavors) is a list of mappings. Flavors: sizes and requirements with a name.
      C(place) keeps them in the store.'
    - C(flavors.name) (text, required). Its name. It is recorded with the instance.
    - C(flavors.vcpus) (whole number from 1, required). Virtual CPUs.
    - C(flavors.memory_mb) (MiB, or a size, required). Memory in MiB, or a size such
      as C(4GiB).
    - 'C(flavors.disk_gb) (GiB, or a size). The disk in GiB, or a size such as C(1T).
      By default 0: the instance has only the disks that it names.'
    - C(flavors.extra_specs) (mapping). Requirements by Nova's names, such as C(trait:CUSTOM_SSD),
      C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd). In the store, a key
      with the value null is removed, and keys that are not named stay.
    - 'C(images) is a list of mappings. Images: properties with a name. C(place) keeps
      them in the store.'
    - C(images.name) (text, required). Its name.
    - 'C(images.source) (text). The source of the image: a URL, or a path.'
    - 'C(images.checksum) (text). Of the source: C(sha256:) or C(sha512:) and the digits.'
    - C(images.disk_format) (C(qcow2), C(raw), C(vdi), C(vhd), C(vhdx), C(vmdk), C(iso),
      C(ploop), C(aki), C(ami), C(ari)). The format of its file, for a pre-filter of
      the scheduler.
    - C(images.properties) (mapping). Its properties by Nova's names, for host filters
      such as ImagePropertiesFilter. In the store, a key with the value null is removed,
      and keys that are not named stay.
    - C(aggregates) is a list of mappings. Host aggregates. C(place) keeps them in
      the store.
    - C(aggregates.name) (text, required). Its name.
    - C(aggregates.hosts) (list of texts). Hosts that are in it. Hosts that are not
      named stay.
    - C(aggregates.remove_hosts) (list of texts). Hosts that are taken out of it.
    - C(aggregates.metadata) (mapping). Its metadata, which host filters read. C(availability_zone)
      is the zone of its hosts. In the store, a key with the value null is removed,
      and keys that are not named stay.
    type: path
  instances:
    description:
    - The instances. As data in place of O(path).
    - C(name) (text, required). Its name, of at most 200 characters and 240 bytes in
      UTF-8. No C(/) and no control characters.
    - 'C(count) (whole number from 1 to 10000). So many equal instances. They are named
      NAME-1, NAME-2 and so on. C(place) does not write their hosts and uuids into
      the file: the store knows each by its name.'
    - 'C(flavor) (text or mapping). The name of a flavor of the file or of the store,
      or a flavor in place: sizes and extra specs.'
    - C(flavor.name) (text, required). Its name. It is recorded with the instance.
    - C(flavor.vcpus) (whole number from 1). Virtual CPUs.
    - C(flavor.memory_mb) (MiB, or a size). Memory in MiB, or a size such as C(4GiB).
    - 'C(flavor.disk_gb) (GiB, or a size). The disk in GiB, or a size such as C(1T).
      By default 0: the instance has only the disks that it names.'
    - C(flavor.extra_specs) (mapping). Requirements by Nova's names, such as C(trait:CUSTOM_SSD),
      C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd).
    - C(vcpus) (whole number from 1). Virtual CPUs. By default the number in the flavor;
      without a flavor 1.
    - C(memory_mb) (MiB, or a size). Memory in MiB, or a size such as C(4GiB). Required
      without a flavor.
    - C(disk_gb) (GiB, or a size). The size of its first disk in GiB, or a size such
      as C(1T), if C(disks) does not say it. By default the size in the flavor. An
      instance without C(disks) has one disk of this size; with 0 it has none.
    - C(disks) (list of mappings). Its disks, in the order vda, vdb and so on.
    - 'C(disks.size_gb) (GiB, or a size). Its size in GiB, or a size such as C(2T).
      The first disk may do without it: then C(disk_gb) or the flavor says it.'
    - 'C(disks.image) (text). The image behind the disk: the path of a file on the
      hypervisor, or the name of an image with a C(source).'
    - C(disks.image_format) (C(qcow2), C(raw), C(qed), C(vdi), C(vhdx), C(vmdk), C(vpc)).
      The format of C(image). The default is C(qcow2).
    - C(disks.path) (text). The path of its file. By default it is a file in the folder
      C(drover_instances_path).
    - C(disks.pool) (text). The storage pool in which it is made, one of C(drover_storage_pools).
      By default the disk is a file in the folder C(drover_instances_path).
    - C(disks.traits) (list of texts). Traits that the pool must have. Give C(pool)
      with it.
    - 'C(disks.source) (mapping). The disk exists, and the instance only gets it: it
      is never made, copied or removed. On the network it counts as nothing, or on
      C(pool) with C(size_gb). With a C(path) it needs C(size_gb). C(image), C(path)
      and C(traits) do not go with it.'
    - C(disks.source.protocol) (C(rbd), C(iscsi), C(nbd), C(gluster), C(nfs)). The
      disk is on the network, and QEMU reaches it by this protocol. Give this or C(path).
    - 'C(disks.source.name) (text). Its name on the network: C(POOL/IMAGE) for rbd,
      C(TARGET/UNIT) for iscsi, C(VOLUME/FILE) for gluster, C(/EXPORT/FILE) for nfs,
      the name of the export for nbd.'
    - C(disks.source.hosts) (list of mappings). Its servers.
    - C(disks.source.hosts.name) (text, required). The name or address of a server.
    - C(disks.source.hosts.port) (whole number from 1 to 65535). Its port [the default
      port of the protocol]. For nfs there is no other.
    - C(disks.source.identity) (mapping). As whom QEMU opens a file by nfs [the user
      and the group that QEMU runs as].
    - C(disks.source.identity.user) (whole number from 0 to 4294967294). The number
      of the user.
    - C(disks.source.identity.group) (whole number from 0 to 4294967294). The number
      of the group.
    - C(disks.source.auth) (mapping). The login of QEMU, for rbd and iscsi.
    - C(disks.source.auth.username) (text, required). The user.
    - C(disks.source.auth.secret) (text, required). The uuid or the usage of a secret
      of libvirt, never its value. Each host that the instance may be on must have
      it.
    - C(disks.source.path) (text). A file, or a block device below C(/dev), that each
      of its hosts has.
    - C(disks.source.format) (C(raw), C(qcow2)). The format of the data there [C(raw)].
    - 'C(disks.bus) (C(virtio), C(scsi), C(sata), C(ide), C(usb)). The bus (Nova: C(hw_disk_bus))
      [C(virtio)].'
    - C(disks.cache) (C(none), C(writeback), C(writethrough), C(directsync), C(unsafe)).
      The cache of the host. Only C(none) and C(directsync) are safe for a live migration
      on shared storage [C(none)].
    - C(disks.io) (C(native), C(threads), C(io_uring)). The way in which QEMU reads
      and writes [QEMU's default].
    - C(disks.discard) (C(unmap), C(ignore)). C(unmap) gives back the blocks that the
      guest discards; C(ignore) does not [C(unmap)].
    - C(disks.serial) (text). The serial number that the guest sees.
    - C(disks.iotune) (mapping). Limits of the disk for a second.
    - 'C(disks.iotune.total_iops_sec) (whole number from 1 to 9223372036854775807).
      The most requests a second, reads and writes together (Nova: C(quota:disk_total_iops_sec)).'
    - 'C(disks.iotune.total_bytes_sec) (whole number from 1 to 9223372036854775807).
      The most bytes a second, reads and writes together (Nova: C(quota:disk_total_bytes_sec)).'
    - 'C(disks.iotune.read_iops_sec) (whole number from 1 to 9223372036854775807).
      The most requests a second, reads (Nova: C(quota:disk_read_iops_sec)).'
    - 'C(disks.iotune.read_bytes_sec) (whole number from 1 to 9223372036854775807).
      The most bytes a second, reads (Nova: C(quota:disk_read_bytes_sec)).'
    - 'C(disks.iotune.write_iops_sec) (whole number from 1 to 9223372036854775807).
      The most requests a second, writes (Nova: C(quota:disk_write_iops_sec)).'
    - 'C(disks.iotune.write_bytes_sec) (whole number from 1 to 9223372036854775807).
      The most bytes a second, writes (Nova: C(quota:disk_write_bytes_sec)).'
    - C(networks) (list of mappings). Its network interfaces.
    - C(networks.bridge) (text). A bridge of the hypervisors. Give this, C(network),
      or C(physical_network) with C(vnic).
    - C(networks.network) (text). A network of libvirt. Give this, C(bridge), or C(physical_network)
      with C(vnic).
    - 'C(networks.physical_network) (text). The interface is a device of the host:
      one with this C(physical_network) in C(drover_pci_device_specs). Give C(vnic)
      with it.'
    - 'C(networks.vnic) (C(direct), C(macvtap), C(direct-physical)). The way in which
      the guest gets the device. C(direct): the virtual function itself. C(macvtap):
      a card of the guest''s model that takes all of the virtual function. C(direct-physical):
      the physical function itself.'
    - C(networks.mac) (text). The MAC address [a new one].
    - 'C(networks.model) (C(virtio), C(virtio-transitional), C(virtio-non-transitional),
      C(e1000), C(e1000e), C(igb), C(rtl8139), C(vmxnet3), C(pcnet), C(ne2k_pci), C(ne2k_isa),
      C(i82550), C(i82551), C(i82557a), C(i82557b), C(i82557c), C(i82558a), C(i82558b),
      C(i82559a), C(i82559b), C(i82559c), C(i82559er), C(i82562), C(i82801), C(tulip),
      C(spapr-vlan), C(lan9118), C(smc91c111)). The model of the card (Nova: C(hw_vif_model))
      [C(virtio)].'
    - C(networks.vlan) (mapping). The VLANs of the interface. On a bridge of Linux
      this needs libvirt 11.0; else the bridge is of Open vSwitch, or the libvirt network
      allows it.
    - C(networks.vlan.tag) (whole number from 0 to 4095). The VLAN of the interface.
    - C(networks.vlan.trunk) (list of whole numbers). The VLANs that the guest sees
      with their tags.
    - C(networks.vlan.native) (whole number from 0 to 4095). The VLAN of C(trunk) that
      the guest sees without a tag.
    - C(networks.mtu) (whole number from 68 to 65535). The MTU of the interface.
    - 'C(networks.queues) (whole number from 1 to 256). The number of queues of the
      card (Nova: C(hw:vif_multiqueue_enabled), one for each vCPU) [1].'
    - C(networks.openvswitch) (true or false or mapping). The bridge is one of Open
      vSwitch.
    - C(networks.openvswitch.interfaceid) (text). The uuid of the port, C(iface-id)
      in Open vSwitch [a new one].
    - C(networks.openvswitch.profileid) (text). The profile of the port.
    - 'C(image) (text or mapping). The image: its name under C(images) or in the store,
      or a mapping with name and properties. Host filters read its properties. If an
      image with a name has a C(source), the first disk is made from it, unless the
      disk has an C(image) of its own.'
    - C(image.name) (text). Its name.
    - C(image.id) (text). Its id, for IsolatedHostsFilter.
    - C(image.disk_format) (C(qcow2), C(raw), C(vdi), C(vhd), C(vhdx), C(vmdk), C(iso),
      C(ploop), C(aki), C(ami), C(ari)). The format of its file, for a pre-filter of
      the scheduler.
    - C(image.properties) (mapping). Its properties by Nova's names, for host filters
      such as ImagePropertiesFilter.
    - C(extra_specs) (mapping). Requirements by Nova's names, such as C(trait:CUSTOM_SSD),
      C(resources:VGPU) or C(aggregate_instance_extra_specs:ssd). They override the
      extra specs of the flavor.
    - C(resources) (mapping). Amounts of other resource classes, such as C(VGPU) or
      classes of your own.
    - C(traits) (mapping). Traits that its host must have or must not have.
    - C(traits.required) (list of texts). Traits that its host must have.
    - C(traits.forbidden) (list of texts). Traits that its host must not have.
    - C(server_group) (text or mapping). The name of a server group of the file or
      of the store, or a server group in place.
    - C(server_group.name) (text, required). Its name.
    - 'C(server_group.policy) (C(affinity), C(anti-affinity), C(soft-affinity), C(soft-anti-affinity),
      required). C(anti-affinity): its members are on different hosts. C(affinity):
      they are on one host. The soft policies only prefer such hosts.'
    - C(server_group.max_server_per_host) (whole number from 1). The most members on
      one host, with the policy C(anti-affinity) only. The default is 1.
    - C(availability_zone) (text). The availability zone of its host.
    - C(hints) (mapping). Hints for the scheduler.
    - C(hints.same_host) (text or list). The host of one of these instances, each a
      name or a uuid.
    - C(hints.different_host) (text or list). Another host than these instances have,
      each a name or a uuid.
    - C(hints.query) (text or list). A JSON query, for JsonFilter.
    - 'C(hints.build_near_host_ip) (text or list). An IP address: a host near it, for
      SimpleCIDRAffinityFilter.'
    - C(hints.cidr) (text or list). The network of C(build_near_host_ip). The default
      is C(/24).
    - C(hints.group) (text or list or mapping). As C(server_group).
    - C(requested_destination) (mapping). The host for it.
    - C(requested_destination.host) (text). The only host that it may be on. Host filters
      may still reject it.
    - C(requested_destination.node) (text). The only compute node that it may be on.
    - C(requested_destination.cell) (text). The cell that a move prefers.
    - C(requested_destination.allow_cross_cell_move) (true or false). True if a move
      may leave the cell.
    - C(ignore_hosts) (text or list). Hosts that it must not be on.
    - C(force_hosts) (text or list). The only hosts that it may be on. Only room, zone
      and the status of the host are checked.
    - C(force_nodes) (text or list). The only compute nodes that it may be on. Only
      room, zone and the status are checked.
    - C(scheduler) (mapping). Keys of the policy for this instance only.
    - C(project) (text). Its project. It is recorded, and some host filters read it.
    - C(user) (text). Its user. It is recorded.
    - C(cloud_init) (mapping). Data for cloud-init. A seed image is made and attached.
    - C(cloud_init.user_data) (text or mapping). The user data. A mapping, or a text
      as cloud-init reads it.
    - C(cloud_init.meta_data) (text or mapping). The meta data. A mapping, or a text
      as cloud-init reads it.
    - C(cloud_init.network_config) (text or mapping). The network configuration. A
      mapping, or a text as cloud-init reads it.
    - C(autostart) (true or false). True if libvirt starts it with its host.
    - C(policy) (mapping). The rules for its moves.
    - 'C(policy.move) (C(never), C(cold), C(live)). C(never): it is not moved. C(cold):
      it is shut off for the move and started again after it. C(live): it is moved
      only while it runs. By default a running instance moves live, and an instance
      that is off moves cold.'
    - 'C(policy.on_drain) (C(shutdown)). C(shutdown): a drain shuts it down where it
      is, and does not move it.'
    - C(policy.priority) (whole number from -1000000 to 1000000). Instances with a
      higher number move first. The default is 0.
    - C(policy.migration) (mapping). Options of its moves. They override the options
      in C(drover_migration).
    - C(policy.migration.bandwidth_mib) (whole number from 1). As this option of moves.
    - C(policy.migration.parallel_connections) (whole number from 2). As this option
      of moves.
    - C(policy.migration.auto_converge) (true or false). As this option of moves.
    - C(policy.migration.post_copy) (true or false). As this option of moves.
    - C(policy.migration.tls) (true or false). As this option of moves.
    - C(policy.migration.tunnelled) (true or false). As this option of moves.
    - C(policy.migration.compression) (C(xbzrle), C(zlib), C(zstd)). As this option
      of moves.
    - C(policy.migration.max_downtime_ms) (whole number from 1). As this option of
      moves.
    - C(policy.migration.timeout_per_gib) (whole number from 1). As this option of
      moves.
    - C(policy.migration.on_timeout) (C(abort), C(post_copy), C(pause), C(shutdown)).
      As this option of moves.
    - C(policy.migration.copy_storage) (C(auto), C(never), C(always)). As this option
      of moves.
    - C(labels) (mapping). Its labels.
    - C(domain_type) (C(kvm), C(qemu)). The type of its domain. By default the best
      that its host offers.
    - 'C(firmware) (C(bios), C(uefi), C(uefi-secure-boot)). C(bios), C(uefi), or C(uefi-secure-boot),
      with the keys of Microsoft enrolled and with System Management Mode (Nova: C(hw_firmware_type),
      C(os_secure_boot)). libvirt of the host picks the files. The UEFI variables move
      with the instance and are removed with it.'
    - 'C(tpm) (mapping). An emulated TPM (Nova: C(hw:tpm_version), C(hw:tpm_model)).
      Its state stays on its host: the instance can move live only.'
    - 'C(tpm.version) (C(1.2), C(2.0), required). The version of the TPM, in quotes
      (Nova: C(hw:tpm_version)).'
    - 'C(tpm.model) (C(tpm-tis), C(tpm-crb)). The interface: C(tpm-tis), or C(tpm-crb)
      with version 2.0 [C(tpm-tis), as in Nova].'
    - 'C(machine) (text). The machine type (Nova: C(hw_machine_type)) [C(q35) on x86_64,
      elsewhere libvirt''s].'
    - 'C(os_type) (C(linux), C(windows)). C(linux) or C(windows) (Nova: C(os_type)
      of the image) [C(linux)]. Windows gets the local time of the host in its clock,
      and the interfaces of Hyper-V with which it runs faster.'
    - 'C(cpu) (text or mapping). The CPU: a mode, a model, features [C(host-model)
      with KVM]; or C(fleet), the one that all hosts of its kind can run.'
    - C(cpu.mode) (C(custom), C(host-model), C(host-passthrough), C(maximum), C(fleet)).
      C(host-model), C(host-passthrough), C(maximum), C(fleet), or C(custom), which
      needs C(model).
    - C(cpu.model) (text). A model of C(virsh cpu-models x86_64).
    - 'C(cpu.features) (mapping). Features of the CPU, each with libvirt''s policy:
      C(require), C(disable), C(optional), C(force) or C(forbid).'
    - C(graphics) (mapping). A graphical console. Without it there is none.
    - C(graphics.type) (C(vnc), C(spice), required). C(vnc) or C(spice).
    - C(graphics.listen) (text). The address of the host on which it listens [127.0.0.1,
      the host itself].
    - C(graphics.password_variable) (text). The name of an Ansible variable that has
      the password. The password goes to libvirt of the host only. VNC takes 8 characters
      at most.
    - 'C(video) (mapping). The video card (Nova: C(hw_video_model), C(hw_video_ram))
      [C(virtio) with C(graphics), else none].'
    - C(video.model) (C(virtio), C(vga), C(qxl), C(cirrus), C(bochs), C(ramfb), C(vmvga),
      C(none), required). The model of the video card; C(none) for no card.
    - C(video.vram_mb) (whole number from 1 to 512). Its memory in MiB [libvirt's default].
    - C(console) (mapping). The serial console.
    - C(console.serial_ports) (whole number from 1 to 4). The number of serial ports;
      the first is the console [1].
    - C(console.log) (true or false). Write what the console shows into a file beside
      the disks, C(UUID-console.log). It is removed with the instance and is not moved
      [false].
    - 'C(guest_agent) (true or false). A channel for the QEMU guest agent (Nova: C(hw_qemu_guest_agent))
      [false].'
    - 'C(watchdog) (mapping). A watchdog (Nova: C(hw:watchdog_action)). Without it
      there is none.'
    - C(watchdog.action) (C(none), C(pause), C(poweroff), C(reset), C(shutdown), C(dump),
      C(inject-nmi), required). The action when the guest does not answer its watchdog.
    - C(watchdog.model) (C(i6300esb), C(ib700)). The device [C(i6300esb)].
    - 'C(rng) (true or false or mapping). A source of random numbers; C(false) for
      none, or a mapping with its rate (Nova: C(hw_rng:allowed)) [true].'
    - C(rng.rate_bytes) (whole number from 1). The guest gets at most so many bytes
      in each period.
    - C(rng.rate_period) (whole number from 1). The period in milliseconds [1000].
    - 'C(boot) (list of texts). The kinds of devices to boot from, the first to try
      first: C(hd), C(cdrom), C(network) [hd].'
    - 'C(boot_menu) (true or false). Show the menu of boot devices (Nova: C(hw:boot_menu))
      [false].'
    - 'C(input_bus) (C(usb), C(virtio)). The bus of a tablet and a keyboard, for the
      pointer of a graphical console (Nova: C(hw_input_bus)).'
    - C(cdroms) (list of mappings). CD-ROM drives in addition to the drive of C(cloud_init).
    - C(cdroms.path) (text). An ISO image on the host. Without it the drive is empty.
    - C(cdroms.bus) (C(sata), C(scsi), C(ide), C(usb)). The bus of the drive [C(sata);
      C(ide) with the machine type C(pc); C(scsi) on other architectures].
    - 'C(state) (C(present), C(absent)). C(absent): it was removed, and C(place) does
      not build it.'
    - C(host) (text). Its host. C(place) writes it; C(requested_destination) asks for
      one.
    - C(uuid) (text). Its uuid. C(place) writes it.
    type: list
    elements: dict
  server_groups:
    description:
    - Server groups. C(place) keeps them in the store. As data in place of O(path).
    - C(name) (text, required). Its name.
    - 'C(policy) (C(affinity), C(anti-affinity), C(soft-affinity), C(soft-anti-affinity),
      required). C(anti-affinity): its members are on different hosts. C(affinity):
      they are on one host. The soft policies only prefer such hosts.'
    - C(max_server_per_host) (whole number from 1). The most members on one host, with
      the policy C(anti-affinity) only. The default is 1.
    - C(max_moving) (whole number from 1). The most members that move at the same time,
      over all runs. By default there is no limit.
    type: list
    elements: dict
    default: []
"""
