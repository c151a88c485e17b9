#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_settings
short_description: Set labels, the policy for moves and autostart of domains
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the hypervisor. It changes the metadata of a running domain and of its definition, so that it stays after a shutdown and goes with
    a migration. Other metadata stays as it is.
  - It starts from the labels that libvirt has. Each domain has its own result, and the failure of one does not stop the others.
options:
  domains:
    description: The domains.
    type: list
    elements: dict
    required: true
    suboptions:
      uuid:
        description: The uuid.
        type: str
        required: true
      name:
        description: The name. A domain with another name is not changed.
        type: str
  labels:
    description: The labels to set. A label without a value is removed. Other labels stay.
    type: dict
    default: {}
  policy:
    description:
      - Texts of the policy for moves, C(move), C(on_drain), C(priority) and C(migration). One without a value is removed. Others stay.
    type: dict
    default: {}
  autostart:
    description: True if libvirt starts the domains with their host. By default that stays as it is.
    type: bool
  patience:
    description: Seconds to wait for another call that works on a domain.
    type: int
    default: 60
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.platform
seealso:
  - module: drover.compute.instance_labels
"""

EXAMPLES = "# Only the roles and playbooks of this collection call this module."

import contextlib
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain import labels as _labels
from ansible_collections.drover.compute.plugins.module_utils._domain import metadata, power
from ansible_collections.drover.compute.plugins.module_utils._host.domains import read_domain
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    host_name,
    libvirt,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records

#: The elements of the metadata with the policy for moves.
POLICY = ("move", "on_drain", "priority", "migration")
DOMAIN_SPEC = {"uuid": {"type": "str", "required": True}, "name": {"type": "str"}}


def _act(
    conn: Any, wanted: dict[str, Any], given: dict[str, Any], check_mode: bool
) -> dict[str, Any]:
    """Work on one domain and return its entry of the result, with lines that show it before and
    after.
    """
    answer: dict[str, Any] = {
        **wanted,
        "changed": False,
        "status": "done",
        "message": "",
        "labels": {},
        "domain": None,
    }
    answer.update(before=[], after=[])
    name = wanted["name"] or wanted["uuid"]
    alone = (
        contextlib.nullcontext()
        if check_mode
        else orders.alone(Records(), wanted["uuid"], name, given["patience"])
    )
    try:
        with alone:
            domain = power.find(conn, uuid=wanted["uuid"])
            if domain is None:
                return {
                    **answer,
                    "status": "absent",
                    "message": f"there is no domain {wanted['uuid']} on {host_name()}",
                }
            if wanted["name"] not in (None, domain.name()):
                raise LibvirtProblem(
                    f"the domain {wanted['uuid']} is named {domain.name()!r} on {host_name()}, not {wanted['name']!r}"
                )
            answer["name"] = domain.name()
            _change(domain, given, answer, check_mode)
            answer["domain"] = read_domain(domain, binding.is_local(given["uri"]))
    except libvirt.libvirtError as exc:
        return {**answer, "status": "failed", "message": binding.text_of(exc)}
    except (LibvirtProblem, OSError, ValueError) as exc:
        return {**answer, "status": "failed", "message": str(exc)}
    return answer


def _change(domain: Any, given: dict[str, Any], answer: dict[str, Any], check_mode: bool) -> None:
    """Change the settings of a domain that differ from the given ones, and write the changes into
    the answer.
    """
    places = metadata.places(domain)
    steps = [
        *_label_steps(domain, places, given["labels"], answer),
        *_policy_steps(domain, places, given["policy"], answer),
    ]
    autostart = given["autostart"]
    differs = autostart is not None and bool(domain.autostart()) != autostart
    if autostart is not None:
        answer["before"].append(f"autostart={_word(autostart != differs)}")
        answer["after"].append(f"autostart={_word(autostart)}")
    if differs and not domain.isPersistent():
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} is transient, so libvirt cannot start it with its host: define it there first"
        )
    if steps and domain.hasManagedSaveImage(0):
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} has its memory saved, and would start with the metadata that it had then: start it, or drop the "
            "image with virsh managedsave-remove"
        )
    # Change the definition first. After a partial failure the running domain still shows the
    # difference.
    for place in reversed(places):
        for _place, name, text in [step for step in steps if step[0] == place]:
            answer["changed"] = True
            if not check_mode:
                metadata.change(domain, place, name, text)
    if differs:
        answer["changed"] = True
        if not check_mode:
            domain.setAutostart(int(autostart))


def _label_steps(
    domain: Any, places: list[int], changes: dict[str, Any], answer: dict[str, Any]
) -> list[tuple[int, str, str]]:
    """Return (place, element, text) of each place with labels that differ from the wanted labels."""
    texts = {place: metadata.labels(domain, place) for place in places}
    before = texts[places[0]]
    labels, others = _labels.read(before)
    labels.update({key: value for key, value in changes.items() if value is not None})
    # An unreadable label stays, unless its key is given.
    others = [each for each in others if each.partition("=")[0] not in changes]
    answer["labels"] = {
        key: value for key, value in labels.items() if not (key in changes and changes[key] is None)
    }
    if not changes:
        return []
    if len(answer["labels"]) > _labels.MOST:
        raise LibvirtProblem(
            f"it would have {len(answer['labels'])} labels, and can have {_labels.MOST}"
        )
    wanted, text = (
        (answer["labels"], sorted(others)),
        _labels.write(answer["labels"], sorted(others)),
    )
    there = {place: _labels.read(texts[place]) for place in places}
    differing = [place for place in places if (there[place][0], sorted(there[place][1])) != wanted]
    answer["before"].append(before)
    answer["after"].append(_labels.write(answer["labels"]) if differing else before)
    return [(place, _labels.ELEMENT, text) for place in differing]


def _policy_steps(
    domain: Any, places: list[int], policy: dict[str, Any], answer: dict[str, Any]
) -> list[tuple[int, str, str]]:
    """Return (place, element, text) of each place with a different text of the policy. An empty
    text removes the element.
    """
    steps = []
    for name, value in policy.items():
        text = "" if value is None else str(value)
        there = {place: metadata.text(domain, place, name) for place in places}
        steps += [(place, name, text) for place in places if there[place] != text]
        answer["before"].append(f"{name}={there[places[0]]}")
        answer["after"].append(f"{name}={text}")
    return steps


def _word(value: bool) -> str:
    return "yes" if value else "no"


def _difference(answers: list[dict[str, Any]]) -> dict[str, str]:
    """Return the domains before and after the change, one line for each given setting."""
    return {
        key: "".join(
            f"{each['name'] or each['uuid']}: {line}\n" for each in answers for line in each[key]
        )
        for key in ("before", "after")
    }


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "domains": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": DOMAIN_SPEC,
            },
            "labels": {"type": "dict", "default": {}},
            "policy": {"type": "dict", "default": {}},
            "autostart": {"type": "bool"},
            "patience": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    for key, value in given["labels"].items():
        if not _labels.is_word(key) or not (value is None or _labels.is_word(value)):
            module.fail_json(
                msg=f"{key}={value} is no label: its key and its value have {_labels.RULE}. Nothing was changed."
            )
    for key in given["policy"]:
        if key not in POLICY:
            module.fail_json(
                msg=f"{key} is no part of a policy, which has {', '.join(POLICY)}. Nothing was changed."
            )
    for each in given["domains"]:
        each["uuid"] = binding.domain_uuid(module, each["uuid"], "changed")
    with module.hypervisor() as conn:
        answers = [_act(conn, each, given, module.check_mode) for each in given["domains"]]
    result: dict[str, Any] = {"changed": any(each["changed"] for each in answers)}
    if module._diff:
        result["diff"] = _difference(answers)
    for each in answers:
        each.pop("before")
        each.pop("after")
    module.exit_json(domains=answers, **result)


if __name__ == "__main__":
    main()
