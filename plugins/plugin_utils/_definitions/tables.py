# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a definitions file, one table for each kind of mapping.

The reader, the JSON Schema, the page docs/definitions.md and the text of ansible-doc are made of
these tables. check.py has the rules between keys. The keys of a request have the names of the
lookup schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._files import checksums
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    options as migration_options,
)

from .._common import labels, validation
from .._common.errors import DroverError, either
from .._migrations import policy as move_policy
from .._numa.device_requests import VNICS
from .._placement import classes_and_traits
from .._placement import server_groups as placement_groups
from .._scheduler.request_spec import MAX_INSTANCES
from . import disk_sources, guest, hardware_fields
from .fields import (
    GIB,
    LIST,
    LONGEST_PATH,
    MAPPING,
    MIB,
    SWITCH,
    TEXT,
    WHOLE,
    Field,
    Table,
    absolute,
    odd_character,
    of_file,
)

STATES = ("present", "absent")
#: The formats that QEMU can take as the backing file of a disk.
BACKING_FORMATS = ("qcow2", "raw", "qed", "vdi", "vhdx", "vmdk", "vpc")
#: The formats of images in Glance.
DISK_FORMATS = ("qcow2", "raw", "vdi", "vhd", "vhdx", "vmdk", "iso", "ploop", "aki", "ami", "ari")


def _name(value: str, place: str) -> str:
    # libvirt refuses / and line breaks; others cannot stand in XML at all.
    # libvirt names files after the domain, NAME_VARS.fd being the longest, in at most 255 bytes. A
    # count adds up to six.
    odd = len(value.encode("utf-8", "surrogatepass")) > 240
    odd |= odd_character(value) is not None
    if "/" in value or value in (".", "..") or odd or not value.strip() or len(value) > 200:
        raise DroverError(
            f"{place}: a name has 1 to 200 characters, at most 240 bytes in UTF-8, no / and no"
            " control characters, and is not . or .."
        )
    return value


def _uuid(value: str, place: str) -> str:
    if value:
        validation.check_uuid(place, value)
    return value


def _disk_path(value: str, place: str) -> str:
    # An empty value counts as not given.
    return value and absolute(value, place)


def _checksum(value: str, place: str) -> str:
    if checksums.read(value) is None:
        forms = [
            f"{name}: and {length} hexadecimal digits"
            for name, length in checksums.ALGORITHMS.items()
        ]
        raise DroverError(f"{place} must be {either(forms)}, not {validation.shown(value)}.")
    return value


def _labels(value: Any, place: str) -> dict[str, Any]:
    return labels.checked(value, place.removesuffix(": labels"))


def _one_name(value: str, place: str) -> str:
    if "," in value:
        raise DroverError(
            f"{place} must name one in each item, and {validation.shown(value)} has a comma. Write"
            " a list, such as [kvm1, kvm2]."
        )
    return value


def _check_names(value: Any, place: str) -> Any:
    return _one_name(value, place) if isinstance(value, str) else value


def _trait(value: str, place: str) -> str:
    known = classes_and_traits.standard(classes_and_traits.TRAIT)
    if value not in known and not classes_and_traits.is_custom(value):
        meant = validation.did_you_mean(value, known)
        raise DroverError(
            f"{place}: there is no trait {validation.shown(value)}{meant}. One of your own is"
            " CUSTOM_ and capital letters, digits and _."
        )
    return value


_NAMES = Field(TEXT, "The name of one.", "kvm1")
_HOSTS = _NAMES._replace(check=_one_name)

_MIGRATION_KINDS = {"int": WHOLE, "bool": SWITCH, "str": TEXT}


def _option(key: str, spec: Mapping[str, Any]) -> Field:
    choices, least = tuple(spec.get("choices", ())), migration_options.LEAST.get(key)
    example = choices[0] if choices else least or True
    return Field(
        _MIGRATION_KINDS[spec["type"]],
        "As this option of [moves](migration.md).",
        example,
        choices=choices,
        least=least,
    )


MIGRATION: Table = {key: _option(key, spec) for key, spec in migration_options.SPEC.items()}

POLICY: Table = {
    "move": Field(
        TEXT,
        "`never`: it is not moved. `cold`: it is shut off for the move and started again after it."
        " `live`: it is moved only while it runs. By default a running instance moves live, and an"
        " instance that is off moves cold.",
        "cold",
        choices=move_policy.MOVES,
    ),
    "on_drain": Field(
        TEXT,
        "`shutdown`: a drain shuts it down where it is, and does not move it.",
        "shutdown",
        choices=move_policy.ON_DRAIN,
    ),
    "priority": Field(
        WHOLE,
        "Instances with a higher number move first. The default is 0.",
        10,
        least=-move_policy.MOST_PRIORITY,
        most=move_policy.MOST_PRIORITY,
    ),
    "migration": Field(
        MAPPING,
        "Options of its moves. They override the options in `drover_migration`.",
        {"copy_storage": "always"},
        fields=MIGRATION,
    ),
}

DISK: Table = {
    "size_gb": Field(
        GIB,
        "Its size in GiB, or a size such as `2T`. The first disk may do without it: then `disk_gb`"
        " or the flavor says it.",
        20,
        least=1,
    ),
    "image": Field(
        TEXT,
        "The image behind the disk: the path of a file on the hypervisor, or the name of an image"
        " with a `source`.",
        "/var/lib/libvirt/images/debian-12.qcow2",
        check=of_file,
        longest=LONGEST_PATH,
    ),
    "image_format": Field(
        TEXT, "The format of `image`. The default is `qcow2`.", "raw", choices=BACKING_FORMATS
    ),
    "path": Field(
        TEXT,
        "The path of its file. By default it is a file in the folder `drover_instances_path`.",
        "/srv/vms/data.qcow2",
        check=_disk_path,
        longest=LONGEST_PATH,
    ),
    "pool": Field(
        TEXT,
        "The [storage pool](pools.md) in which it is made, one of `drover_storage_pools`. By"
        " default the disk is a file in the folder `drover_instances_path`.",
        "fast",
    ),
    "traits": Field(
        LIST,
        "Traits that the pool must have. Give `pool` with it.",
        ["STORAGE_DISK_SSD"],
        items=Field(TEXT, "A trait.", "STORAGE_DISK_SSD", check=_trait),
    ),
    "source": Field(
        MAPPING,
        "The disk exists, and the instance only gets it: it is never made, copied or removed. On"
        " the network it counts as nothing, or on `pool` with `size_gb`. With a `path` it needs"
        " `size_gb`. `image`, `path` and `traits` do not go with it.",
        {"protocol": "nbd", "name": "db-data", "hosts": [{"name": "store1.example.com"}]},
        fields=disk_sources.SOURCE,
    ),
    **hardware_fields.DISK_FIELDS,
}

NETWORK: Table = {
    "bridge": Field(
        TEXT,
        "A bridge of the hypervisors. Give this, `network`, or `physical_network` with `vnic`.",
        "br0",
    ),
    "network": Field(
        TEXT,
        "A network of libvirt. Give this, `bridge`, or `physical_network` with `vnic`.",
        "default",
    ),
    "physical_network": Field(
        TEXT,
        "The interface is a [device of the host](numa.md#network-devices): one with this"
        " `physical_network` in `drover_pci_device_specs`. Give `vnic` with it.",
        "physnet1",
    ),
    "vnic": Field(
        TEXT,
        "The way in which the guest gets the device. `direct`: the virtual function itself."
        " `macvtap`: a card of the guest's model that takes all of the virtual function."
        " `direct-physical`: the physical function itself.",
        "direct",
        choices=tuple(VNICS),
    ),
    **hardware_fields.NETWORK_FIELDS,
}

_SEED = "A mapping, or a text as cloud-init reads it."

CLOUD_INIT: Table = {
    "user_data": Field(
        (TEXT, MAPPING), f"The user data. {_SEED}", {"packages": ["qemu-guest-agent"]}, longest=None
    ),
    "meta_data": Field(
        (TEXT, MAPPING),
        f"The meta data. {_SEED}",
        {"local-hostname": "web1.example.com"},
        longest=None,
    ),
    "network_config": Field(
        (TEXT, MAPPING),
        f"The network configuration. {_SEED}",
        {"version": 2, "ethernets": {"all": {"dhcp4": True}}},
        longest=None,
    ),
}

SERVER_GROUP: Table = {
    "name": Field(TEXT, "Its name.", "web", required=True),
    "policy": Field(
        TEXT,
        "`anti-affinity`: its members are on different hosts. `affinity`: they are on one host. The"
        " soft policies only prefer such hosts.",
        "anti-affinity",
        choices=placement_groups.POLICIES,
        required=True,
    ),
    "max_server_per_host": Field(
        WHOLE,
        "The most members on one host, with the policy `anti-affinity` only. The default is 1.",
        2,
        least=1,
    ),
}

SERVER_GROUPS: Table = {
    **SERVER_GROUP,
    "max_moving": Field(
        WHOLE,
        "The most members that move at the same time, over all runs. By default there is no limit.",
        1,
        least=1,
    ),
}

#: The description of mappings in the sections that are kept in the store.
_KEPT = "In the store, a key with the value null is removed, and keys that are not named stay."

EXTRA_SPECS = Field(
    MAPPING,
    "Requirements by Nova's names, such as `trait:CUSTOM_SSD`, `resources:VGPU` or"
    " `aggregate_instance_extra_specs:ssd`.",
    {"aggregate_instance_extra_specs:ssd": "true"},
)

FLAVORS: Table = {
    "name": Field(TEXT, "Its name. It is recorded with the instance.", "small", required=True),
    "vcpus": Field(WHOLE, "Virtual CPUs.", 2, least=1, required=True),
    "memory_mb": Field(
        MIB, "Memory in MiB, or a size such as `4GiB`.", "4GiB", least=1, required=True
    ),
    "disk_gb": Field(
        GIB,
        "The disk in GiB, or a size such as `1T`. By default 0: the instance has only the disks"
        " that it names.",
        20,
    ),
    "extra_specs": EXTRA_SPECS._replace(description=f"{EXTRA_SPECS.description} {_KEPT}"),
}

PROPERTIES = Field(
    MAPPING,
    "Its properties by Nova's names, for host filters such as ImagePropertiesFilter.",
    {"hw_architecture": "x86_64"},
)

#: A flavor of one instance.
FLAVOR: Table = {
    **{key: field._replace(required=key == "name") for key, field in FLAVORS.items()},
    "extra_specs": EXTRA_SPECS,
}

#: An image of one instance.
IMAGE: Table = {
    "name": Field(TEXT, "Its name.", "debian-12"),
    "id": Field(TEXT, "Its id, for IsolatedHostsFilter.", "debian-12-2026"),
    "disk_format": Field(
        TEXT,
        "The format of its file, for a pre-filter of the scheduler.",
        "qcow2",
        choices=DISK_FORMATS,
    ),
    "properties": PROPERTIES,
}

IMAGES: Table = {
    "name": Field(TEXT, "Its name.", "debian-12", required=True, check=_name, longest=None),
    "source": Field(
        TEXT,
        "The source of the image: a URL, or a path.",
        "https://cloud.debian.org/images/cloud/bookworm/latest/debian-12.qcow2",
        check=of_file,
        longest=LONGEST_PATH,
    ),
    "checksum": Field(
        TEXT,
        "Of the source: `sha256:` or `sha512:` and the digits.",
        "sha256:" + "0123456789abcdef" * 4,
        check=_checksum,
    ),
    "disk_format": IMAGE["disk_format"],
    "properties": PROPERTIES._replace(description=f"{PROPERTIES.description} {_KEPT}"),
}

AGGREGATES: Table = {
    "name": Field(TEXT, "Its name.", "ssd", required=True),
    "hosts": Field(
        LIST, "Hosts that are in it. Hosts that are not named stay.", ["kvm1", "kvm2"], items=_HOSTS
    ),
    "remove_hosts": Field(LIST, "Hosts that are taken out of it.", ["kvm3"], items=_HOSTS),
    "metadata": Field(
        MAPPING,
        "Its metadata, which host filters read. `availability_zone` is the zone of its hosts."
        f" {_KEPT}",
        {"ssd": "true"},
    ),
}

TRAITS: Table = {
    "required": Field(
        LIST,
        "Traits that its host must have.",
        ["HW_CPU_X86_AVX2"],
        items=Field(TEXT, "A trait.", "CUSTOM_SSD", check=_trait),
    ),
    "forbidden": Field(
        LIST,
        "Traits that its host must not have.",
        ["CUSTOM_SLOW"],
        items=Field(TEXT, "A trait.", "CUSTOM_SSD", check=_trait),
    ),
}

HINTS: Table = {
    "same_host": Field(
        (TEXT, LIST),
        "The host of one of these instances, each a name or a uuid.",
        ["db1"],
        items=_NAMES,
    ),
    "different_host": Field(
        (TEXT, LIST),
        "Another host than these instances have, each a name or a uuid.",
        ["db1", "db2"],
        items=_NAMES,
    ),
    "query": Field(
        (TEXT, LIST), "A JSON query, for JsonFilter.", [">=", "$free_ram_mb", 1024], longest=None
    ),
    "build_near_host_ip": Field(
        (TEXT, LIST), "An IP address: a host near it, for SimpleCIDRAffinityFilter.", "192.0.2.1"
    ),
    "cidr": Field(
        (TEXT, LIST), "The network of `build_near_host_ip`. The default is `/24`.", "/28"
    ),
    "group": Field((TEXT, LIST, MAPPING), "As `server_group`.", "web"),
}

DESTINATION: Table = {
    "host": Field(
        TEXT, "The only host that it may be on. Host filters may still reject it.", "kvm1"
    ),
    "node": Field(TEXT, "The only compute node that it may be on.", "kvm1"),
    "cell": Field(TEXT, "The cell that a move prefers.", "cell1"),
    "allow_cross_cell_move": Field(SWITCH, "True if a move may leave the cell.", True),
}

#: The keys of an instance of a definition.
INSTANCE: Table = {
    "name": Field(
        TEXT,
        "Its name, of at most 200 characters and 240 bytes in UTF-8. No `/` and no control"
        " characters.",
        "web1",
        required=True,
        check=_name,
        longest=None,
    ),
    "count": Field(
        WHOLE,
        "So many equal instances. They are named NAME-1, NAME-2 and so on. `place` does not write"
        " their hosts and uuids into the file: the store knows each by its name.",
        3,
        least=1,
        most=MAX_INSTANCES,
    ),
    "flavor": Field(
        (TEXT, MAPPING),
        "The name of a flavor of the file or of the store, or a flavor in place: sizes and extra"
        " specs.",
        "small",
        fields=FLAVOR,
    ),
    "vcpus": Field(
        WHOLE, "Virtual CPUs. By default the number in the flavor; without a flavor 1.", 2, least=1
    ),
    "memory_mb": Field(
        MIB, "Memory in MiB, or a size such as `4GiB`. Required without a flavor.", "4GiB", least=1
    ),
    "disk_gb": Field(
        GIB,
        "The size of its first disk in GiB, or a size such as `1T`, if `disks` does not say it. By"
        " default the size in the flavor. An instance without `disks` has one disk of this size;"
        " with 0 it has none.",
        20,
    ),
    "disks": Field(
        LIST, "Its disks, in the order vda, vdb and so on.", [{"size_gb": 20}], fields=DISK
    ),
    "networks": Field(LIST, "Its network interfaces.", [{"bridge": "br0"}], fields=NETWORK),
    "image": Field(
        (TEXT, MAPPING),
        "The image: its name under `images` or in the store, or a mapping with name and properties."
        " Host filters read its properties. If an image with a name has a `source`, the first disk"
        " is made from it, unless the disk has an `image` of its own.",
        "debian-12",
        fields=IMAGE,
    ),
    "extra_specs": EXTRA_SPECS._replace(
        description=f"{EXTRA_SPECS.description} They override the extra specs of the flavor."
    ),
    "resources": Field(
        MAPPING,
        "Amounts of other resource classes, such as `VGPU` or classes of your own.",
        {"CUSTOM_LICENCE": 1},
    ),
    "traits": Field(
        MAPPING,
        "Traits that its host must have or must not have.",
        {"required": ["CUSTOM_SSD"]},
        fields=TRAITS,
    ),
    "server_group": Field(
        (TEXT, MAPPING),
        "The name of a server group of the file or of the store, or a server group in place.",
        "web",
        fields=SERVER_GROUP,
    ),
    "availability_zone": Field(TEXT, "The availability zone of its host.", "rack1"),
    "hints": Field(MAPPING, "Hints for the scheduler.", {"different_host": ["db1"]}, fields=HINTS),
    "requested_destination": Field(
        MAPPING, "The host for it.", {"host": "kvm1"}, fields=DESTINATION
    ),
    "ignore_hosts": Field(
        (TEXT, LIST), "Hosts that it must not be on.", ["kvm3"], items=_HOSTS, check=_check_names
    ),
    "force_hosts": Field(
        (TEXT, LIST),
        "The only hosts that it may be on. Only room, zone and the status of the host are checked.",
        ["kvm1"],
        items=_HOSTS,
        check=_check_names,
    ),
    "force_nodes": Field(
        (TEXT, LIST),
        "The only compute nodes that it may be on. Only room, zone and the status are checked.",
        ["kvm1"],
        items=_HOSTS,
        check=_check_names,
    ),
    "scheduler": Field(
        MAPPING,
        "Keys of the [policy](scheduler.md#policy) for this instance only.",
        {"weighers": {"RAMWeigher": -1.0}},
    ),
    "project": Field(TEXT, "Its project. It is recorded, and some host filters read it.", "shop"),
    "user": Field(TEXT, "Its user. It is recorded.", "ann"),
    "cloud_init": Field(
        MAPPING,
        "Data for cloud-init. A seed image is made and attached.",
        {"user_data": {"packages": ["nginx"]}},
        fields=CLOUD_INIT,
    ),
    "autostart": Field(SWITCH, "True if libvirt starts it with its host.", True),
    "policy": Field(MAPPING, "The rules for its moves.", {"move": "cold"}, fields=POLICY),
    "labels": Field(
        MAPPING, "Its [labels](instances.md#labels).", {"project": "web"}, check=_labels
    ),
    "domain_type": Field(
        TEXT,
        "The type of its domain. By default the best that its host offers.",
        "qemu",
        choices=guest.TYPES,
    ),
    **hardware_fields.INSTANCE_FIELDS,
    "state": Field(
        TEXT, "`absent`: it was removed, and `place` does not build it.", "absent", choices=STATES
    ),
    "host": Field(
        TEXT, "Its host. `place` writes it; `requested_destination` asks for one.", "kvm1"
    ),
    "uuid": Field(
        TEXT, "Its uuid. `place` writes it.", "4678f48e-9e6e-53d3-9c13-dbd66056a5d1", check=_uuid
    ),
}

#: The sections of a file. Each is a list of mappings.
SECTIONS: dict[str, Table] = {
    "instances": INSTANCE,
    "server_groups": SERVER_GROUPS,
    "flavors": FLAVORS,
    "images": IMAGES,
    "aggregates": AGGREGATES,
}

#: Other keys of the file begin so. Such keys are ignored, and may have anchors for values that
#: several instances share.
OWN = "x-"

_OF_SECTIONS = {
    "instances": "The instances.",
    "server_groups": "Server groups.",
    "flavors": "Flavors: sizes and requirements with a name.",
    "images": "Images: properties with a name.",
    "aggregates": "Host aggregates.",
}

#: The whole file.
FILE: Table = {
    name: Field(
        LIST,
        _OF_SECTIONS[name] + ("" if name == "instances" else " `place` keeps them in the store."),
        [{key: field.example for key, field in table.items() if field.required}],
        fields=table,
    )
    for name, table in SECTIONS.items()
}
