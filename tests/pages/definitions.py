# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The outputs from the tables of a definitions file: its page, its JSON Schema, and the text of
ansible-doc."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._definitions import fields, tables
from ansible_collections.drover.compute.plugins.plugin_utils._definitions.fields import Field, Table

#: The place of the schema for editors. It is docs/definitions.schema.json of the collection.
URL = "https://raw.githubusercontent.com/drover-compute/drover.compute/main/docs/definitions.schema.json"
#: The line at the head of a definitions file with the schema for editors.
COMMENT = f"# yaml-language-server: $schema={URL}"
_COPYRIGHT = (
    "Copyright (c) 2026, The drover.compute authors",
    (
        "GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or"
        " https://www.gnu.org/licenses/gpl-3.0.txt)"
    ),
    # Two words, because a reader of licences would take one word as the licence of this file.
    "SPDX-License-" + "Identifier: GPL-3.0-or-later",
)

_EXAMPLE = f"""# fleet.yml
{COMMENT}
flavors:
  - {{name: small, vcpus: 2, memory_mb: 2GiB, disk_gb: 20}}

images:
  - name: debian-12
    properties: {{hw_architecture: x86_64}}

aggregates:
  - {{name: ssd, hosts: [kvm1, kvm2], metadata: {{ssd: "true"}}}}

server_groups:
  - {{name: web, policy: anti-affinity}}

instances:
  - name: web
    count: 3
    flavor: small
    image: debian-12
    disks:
      - image: /var/lib/libvirt/images/debian-12.qcow2
    networks:
      - bridge: br0
    server_group: web
  - name: db1
    flavor: small
    memory_mb: 8GiB
    extra_specs: {{"aggregate_instance_extra_specs:ssd": "true"}}
    traits: {{required: [HW_CPU_X86_AVX2]}}
    networks:
      - bridge: br0
"""

_INTRODUCTION = f"""# What can an instance be

Every key of a definitions file, with an example. `ansible-playbook drover.compute.place -e drover_definitions=fleet.yml` reads it, keeps
`flavors`, `images`, `aggregates` and `server_groups` in the store, and builds the `instances` that are new.

```yaml
{_EXAMPLE}```

The second line tells editors the [JSON Schema](definitions.schema.json) of the file: they complete keys and mark mistakes (in VS Code the
extension YAML, in other editors yaml-language-server). An installed collection has the schema too, as `docs/definitions.schema.json` in its
folder; name its path in place of the URL if the editor has no internet access.

An unknown key is refused with the nearest known one, and a wrong value in a sentence with the file and the line. A key without a value (null)
counts as not given. The keys of a request have the names of the lookup `drover.compute.schedule`, except `host` and `uuid`. `place` writes these
two into the file, so they show where the instance is. To request a host, write `requested_destination`.

A key at the top of the file that begins with `x-` is your own and is ignored. It has the parts that several instances share, with a YAML anchor
(`x-login: &login`), and each instance names it (`cloud_init: *login`).

A definition that no host can build is refused before anything is placed, with `--check` too: an image without a checksum, a storage pool that no host has
declared, a network or a bridge that no host has, a format or a model that does not exist, data that cloud-init would ignore.

An entry of a section stays in the store when it is taken out of the file. Remove it with the modules `drover.compute.flavor`,
`drover.compute.image`, `drover.compute.aggregate` and `drover.compute.server_group`.
"""

_KINDS = {
    fields.TEXT: "text",
    fields.WHOLE: "whole number",
    fields.SWITCH: "true or false",
    fields.LIST: "list",
    fields.MAPPING: "mapping",
    fields.MIB: "MiB, or a size",
    fields.GIB: "GiB, or a size",
    fields.ANY: "anything",
}


def walk() -> Iterator[tuple[tuple[str, ...], Table]]:
    """Yield the keys that lead to each table, and the table; a section first, then the tables in
    it.
    """
    for name, field in tables.FILE.items():
        yield from _walk((name,), field)


def _walk(path: tuple[str, ...], field: Field) -> Iterator[tuple[tuple[str, ...], Table]]:
    if field.fields is not None:
        yield path, field.fields
        for key, each in field.fields.items():
            yield from _walk((*path, key), each)


def page(head: str) -> str:
    """Return the page of all keys.

    :param head: the first lines of a made page.
    """
    text = [head, "", _INTRODUCTION]
    for path, table in walk():
        parents = ".".join(path[1:])
        text += [f"## {path[0]}" if not parents else f"### {parents} of {path[0]}", ""]
        if not parents:
            text += [tables.FILE[path[0]].description, ""]
        text += ["| Key | Value | Meaning | Example |", "|---|---|---|---|"]
        text += [_row(key, field) for key, field in table.items()]
        text.append("")
    return "\n".join(text)


def _row(key: str, field: Field) -> str:
    name = f"`{key}`" + (" (required)" if field.required else "")
    example = yaml.safe_dump(
        {key: field.example}, default_flow_style=True, width=10**6, sort_keys=False
    ).strip()[1:-1]
    cells = [name, _value(field), field.description, f"`{example}`"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(field: Field) -> str:
    """Return the description of a value, for people."""
    if field.choices:
        return ", ".join(f"`{choice}`" for choice in field.choices)
    words = " or ".join(_KINDS[kind] for kind in field.kinds)
    if fields.WHOLE in field.kinds and field.least is not None:
        words += f" from {field.least}" + (f" to {field.most}" if field.most is not None else "")
    if field.kinds == (fields.LIST,):
        words += (
            " of mappings"
            if field.fields is not None
            else f" of {_KINDS[field.items.kinds[0]]}s"
            if field.items is not None
            else ""
        )
    return words


def schema() -> str:
    """Return the JSON Schema of the file. Draft 7, which editors know best."""
    head: dict[str, Any] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": URL,
        "$comment": "Made by make pages. Do not edit. " + ". ".join(_COPYRIGHT),
        "title": "Definitions of drover.compute",
    }
    own = {
        "patternProperties": {
            f"^{tables.OWN}": {
                "description": "A key of your own, such as an anchor that several instances share."
            }
        }
    }
    return json.dumps({**head, **fields.json_schema(tables.FILE), **own}, indent=1) + "\n"


# --- ansible-doc ----------------------------------------------------------------------------------


def fragment() -> str:
    """Return the documentation fragment for the plugins that read definitions.

    The keys are texts and no suboptions: Ansible would refuse values of suboptions with its own
    message, without the line of the file.
    """
    path = [
        (
            "A YAML file with definitions. A relative path is relative to the folder in which the"
            " playbook is started, else to the playbook's own folder."
        ),
        (
            "It has the sections C(instances), as O(instances), and C(server_groups), as"
            " O(server_groups)."
        ),
    ]
    for name in tables.FILE:
        if name not in ("instances", "server_groups"):
            path += [
                f"C({name}) is a list of mappings. {_markup(tables.FILE[name].description)}",
                *_keys(tables.SECTIONS[name], f"{name}."),
            ]
    options: dict[str, Any] = {"path": {"description": path, "type": "path"}}
    for name in ("instances", "server_groups"):
        text = [
            f"{_markup(tables.FILE[name].description)} As data in place of O(path).",
            *_keys(tables.SECTIONS[name]),
        ]
        options[name] = {"description": text, "type": "list", "elements": "dict"}
    options["server_groups"]["default"] = []
    text = yaml.safe_dump({"options": options}, sort_keys=False, width=81, allow_unicode=True)
    head = "".join(f"# {line}\n" for line in _COPYRIGHT)
    return (
        f'{head}"""The keys of definitions. Made by make pages. Do not edit."""\n\nfrom __future__'
        ' import annotations\n\n\nclass ModuleDocFragment:\n    """Documentation fragment'
        f' ``drover.compute.definitions``."""\n\n    DOCUMENTATION = r"""\n{text}"""\n'
    )


def _keys(table: Table, outer: str = "") -> Iterator[str]:
    """Yield a paragraph for each key of a table, and for the keys in it."""
    for key, field in table.items():
        required = ", required" if field.required else ""
        yield f"C({outer}{key}) ({_markup(_value(field))}{required}). {_markup(field.description)}"
        if field.fields is not None:
            yield from _keys(field.fields, f"{outer}{key}.")


def _markup(text: str) -> str:
    """Return Markdown in the markup of ansible-doc."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text)
    return re.sub(r"`([^`]+)`", r"C(\1)", text)
