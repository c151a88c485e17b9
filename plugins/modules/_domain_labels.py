#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _domain_labels
short_description: Set and remove labels in the metadata of domains
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the hypervisor. It changes the labels of a running domain and of its definition, so that they stay after a shutdown and go with a
    migration. Other metadata stays as it is.
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
    required: true
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

EXAMPLES = r"""
- name: Labels on libvirt's test driver
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read its one domain
      drover.compute.hypervisor_info:
        uri: test:///default
      register: found

    - name: Set one label and remove another one
      drover.compute._domain_labels:
        uri: test:///default
        domains:
          - uuid: "{{ found.hypervisor.domains[0].uuid }}"
        labels:
          project: web
          tier:
"""

RETURN = r"""
domains:
  description: One entry for each of O(domains), in the same order.
  returned: success
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid., type: str, returned: always}
    name: {description: "The name, that of libvirt if it is known.", type: str, returned: always}
    changed: {description: "True if a label was set or removed.", type: bool, returned: always}
    status: {description: "V(done), V(absent) (it is not here) or V(failed).", type: str, returned: always}
    message: {description: The error., type: str, returned: always}
    labels: {description: "The labels afterwards; in check mode those that it would have.", type: dict, returned: always}
    domain:
      description: The domain as M(drover.compute.hypervisor_info) describes it, after the change. Null if it is not here.
      type: dict
      returned: always
  sample:
    - uuid: 5d3d4b9a-7a0c-4f7e-9d50-0d6c1a6a1a01
      name: web1
      changed: true
      status: done
      message: ""
      labels: {project: web}
"""

import contextlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.drover.compute.plugins.module_utils import _domain_metadata, _labels, _libvirt, _orders, _power
from ansible_collections.drover.compute.plugins.module_utils._domains import read_domain
from ansible_collections.drover.compute.plugins.module_utils._libvirt import LibvirtProblem, host_name, libvirt
from ansible_collections.drover.compute.plugins.module_utils._migration.record import Records

DOMAIN_SPEC = {"uuid": {"type": "str", "required": True}, "name": {"type": "str"}}


def _act(conn: Any, wanted: dict[str, Any], given: dict[str, Any], check_mode: bool) -> dict[str, Any]:
    """Work on one domain and return its entry of the result, with the text of its labels before."""
    answer: dict[str, Any] = {**wanted, "changed": False, "status": "done", "message": "", "labels": {}, "domain": None, "before": ""}
    name = wanted["name"] or wanted["uuid"]
    alone = contextlib.nullcontext() if check_mode else _orders.alone(Records(), wanted["uuid"], name, given["patience"])
    try:
        with alone:
            domain = _power.find(conn, uuid=wanted["uuid"])
            if domain is None:
                return {**answer, "status": "absent", "message": f"there is no domain {wanted['uuid']} on {host_name()}"}
            if wanted["name"] not in (None, domain.name()):
                raise LibvirtProblem(f"the domain {wanted['uuid']} is named {domain.name()!r} on {host_name()}, not {wanted['name']!r}")
            answer["name"] = domain.name()
            _change(domain, given["labels"], answer, check_mode)
            answer["domain"] = read_domain(domain, _libvirt.is_local(given["uri"]))
    except libvirt.libvirtError as exc:
        return {**answer, "status": "failed", "message": _libvirt.text_of(exc)}
    except (LibvirtProblem, OSError, ValueError) as exc:
        return {**answer, "status": "failed", "message": str(exc)}
    return answer


def _change(domain: Any, changes: dict[str, Any], answer: dict[str, Any], check_mode: bool) -> None:
    """Change the labels of a domain wherever they differ from those that it is to have, and write into the answer what was done."""
    places = _domain_metadata.places(domain)
    texts = {place: _domain_metadata.labels(domain, place) for place in places}
    answer["before"] = texts[places[0]]
    labels, others = _labels.read(answer["before"])
    labels.update({key: value for key, value in changes.items() if value is not None})
    # What cannot be read stays, unless it is of a key that is given.
    others = [each for each in others if each.partition("=")[0] not in changes]
    answer["labels"] = {key: value for key, value in labels.items() if not (key in changes and changes[key] is None)}
    if len(answer["labels"]) > _labels.MOST:
        raise LibvirtProblem(f"it would have {len(answer['labels'])} labels, and can have {_labels.MOST}")
    wanted = (answer["labels"], sorted(others))
    there = {place: _labels.read(texts[place]) for place in places}
    differing = [place for place in places if (there[place][0], sorted(there[place][1])) != wanted]
    if differing and domain.hasManagedSaveImage(0):
        raise LibvirtProblem(
            f"{domain.name()} on {host_name()} has its memory saved, and would start with the labels that it had then: start it, or drop the image "
            "with virsh managedsave-remove"
        )
    # The definition first: what failed half way is then still seen in the running domain.
    for place in reversed(differing):
        if not check_mode:
            _domain_metadata.change(domain, place, _labels.ELEMENT, _labels.write(*wanted))
        answer["changed"] = True


def _difference(answers: list[dict[str, Any]]) -> dict[str, str]:
    """Return the labels before and after, one line for each domain."""
    return {
        "before": "".join(f"{each['name'] or each['uuid']}: {each['before']}\n" for each in answers),
        "after": "".join(
            f"{each['name'] or each['uuid']}: {_labels.write(each['labels']) if each['changed'] else each['before']}\n" for each in answers
        ),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "domains": {"type": "list", "elements": "dict", "required": True, "options": DOMAIN_SPEC},
            "labels": {"type": "dict", "required": True},
            "patience": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    given = module.params
    for key, value in given["labels"].items():
        if not _labels.is_word(key) or not (value is None or _labels.is_word(value)):
            module.fail_json(msg=f"{key}={value} is no label: its key and its value have {_labels.RULE}. Nothing was changed.")
    for each in given["domains"]:
        each["uuid"] = _libvirt.domain_uuid(module, each["uuid"], "changed")
    conn = _libvirt.connect(module, given["uri"])
    try:
        answers = [_act(conn, each, given, module.check_mode) for each in given["domains"]]
    finally:
        _libvirt.close(conn)
    result: dict[str, Any] = {"changed": any(each["changed"] for each in answers)}
    if module._diff:
        result["diff"] = _difference(answers)
    for each in answers:
        each.pop("before")
    module.exit_json(domains=answers, **result)


if __name__ == "__main__":
    main()
