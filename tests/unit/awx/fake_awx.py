# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of AWX's API that the modules of awx.awx use, with the refusals of AWX 24.6.

It makes, changes and deletes objects, and finds them by their fields and by the fields of objects
that they refer to. ``launch``, ``sync`` and ``ends`` imitate AWX: they take the answers of a
survey, import an inventory, and decide how a workflow ends.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import urllib.parse

from ansible_collections.drover.compute.tests.unit.awx import shipped

JOB_TYPES = {
    "job_template": "job_templates",
    "workflow_job_template": "workflow_job_templates",
    "inventory_source": "inventory_sources",
    "project": "projects",
    "workflow_approval": "workflow_approval_templates",
}
# The values of an object's fields before a request sets them.
INITIAL = {
    "projects": {"scm_revision": "", "credential": None},
    "workflow_job_template_nodes": {
        "unified_job_template": None,
        "extra_data": {},
        "limit": None,
        "job_type": None,
        "success_nodes": [],
        "failure_nodes": [],
        "always_nodes": [],
    },
    "inventories": {"kind": "", "host_filter": None, "variables": ""},
    "hosts": {"variables": "", "description": ""},
    "job_templates": {
        "survey_enabled": False,
        "ask_variables_on_launch": False,
        "ask_limit_on_launch": False,
        "ask_job_type_on_launch": False,
    },
    "workflow_job_templates": {
        "survey_enabled": False,
        "ask_variables_on_launch": False,
        "ask_limit_on_launch": False,
    },
}
# Fields that refer to an object, and its kind.
REFERENCES = {
    "organization": "organizations",
    "inventory": "inventories",
    "project": "projects",
    "source_project": "projects",
    "execution_environment": "execution_environments",
    "credential": "credentials",
    "credential_type": "credential_types",
    "workflow_job_template": "workflow_job_templates",
    "unified_job_template": tuple(JOB_TYPES.values()),
}
EDGES = ("success_nodes", "failure_nodes", "always_nodes")
PROMPTS = {"limit": "ask_limit_on_launch", "job_type": "ask_job_type_on_launch"}
ROLES = ("admin_role", "read_role", "execute_role", "approval_role", "use_role")
SURVEY_TYPES = {
    "text": str,
    "textarea": str,
    "password": str,
    "multiplechoice": str,
    "multiselect": str,
    "integer": int,
    "float": float,
}


class Refused(Exception):
    """An answer of AWX with this status and these words."""

    def __init__(self, words, status=400):
        super().__init__(words)
        self.words, self.status = words, status


class Awx:
    """The objects: ``objects[kind]`` is a list of dicts; ``writes`` has the posted, patched and
    deleted objects."""

    def __init__(self):
        self.objects, self.lists, self.surveys, self.writes = {}, {}, {}, []
        self.url = None
        #: True if AWX can read the repository of a project; then the output of a synchronization,
        #: and the playbooks that AWX finds.
        self.repository = True
        self.output = ""
        self.playbooks = [f"playbooks/{path.name}" for path in shipped.PLAYBOOKS.values()]
        #: The greatest number of hosts that one request makes.
        self.bulk = 100
        self._last = 0

    # Objects.

    def add(self, kind, /, **fields):
        self._last += 1
        number = self._last
        url = f"/api/v2/{kind}/{number}/"
        initial = json.loads(json.dumps(INITIAL.get(kind, {})))
        made = {
            "id": number,
            "url": url,
            "related": {
                name: f"{url}{name}/" for name in ("survey_spec", "hosts", "children", "update")
            },
            "summary_fields": {
                "object_roles": {role: {"id": number * 100 + at} for at, role in enumerate(ROLES)}
            },
            **initial,
            # The API sets the default for a null in these fields.
            **{
                name: value
                for name, value in fields.items()
                if value is not None or name not in initial
            },
        }
        self.objects.setdefault(kind, []).append(made)
        if kind == "inventories" and made["kind"] == "constructed":
            self.add(
                "inventory_sources",
                name=f"Auto-created source for: {made['name']}",
                inventory=number,
                source="constructed",
            )
        return made

    def one(self, kind, number):
        (awx_object,) = [
            each for each in self.objects.get(kind, ()) if each["id"] == int(number)
        ] or [None]
        if awx_object is None:
            raise Refused({"detail": "Not found."}, 404)
        return awx_object

    def named(self, kind, name):
        (found,) = [each for each in self.objects.get(kind, ()) if each["name"] == name]
        return found

    def members(self, kind, number, name):
        return self.lists.setdefault((kind, str(number), name), [])

    def find(self, kind, wanted):
        if kind == "unified_job_templates":
            kinds = [JOB_TYPES[wanted["type"]]] if wanted.get("type") in JOB_TYPES else []
            kinds = kinds or ([] if "type" in wanted else list(JOB_TYPES.values()))
        else:
            kinds = [kind]
        order = wanted.get("order_by")
        wanted = {
            name: value
            for name, value in wanted.items()
            if name not in ("type", "page_size", "order_by")
        }
        matches = [(name, each) for name in kinds for each in self.objects.get(name, ())]
        listed = [
            self.shown(name, each)
            for name, each in matches
            if all(value in self._values(name, each, key) for key, value in wanted.items())
        ]
        return listed[::-1] if order == "-id" else listed

    def _values(self, kind, each, key):
        """Return the values that a filter compares: a field, or a field of an object that it refers
        to."""
        first, dummy, rest = key.partition("__")
        if kind == "hosts" and first == "groups":
            groups = [
                group
                for group in self.objects.get("groups", ())
                if each["id"] in self.members("groups", group["id"], "hosts")
            ]
            return {value for group in groups for value in self._values("groups", group, rest)}
        if rest:
            return self._values(REFERENCES[first], self.one(REFERENCES[first], each[first]), rest)
        return {str(self.shown(kind, each).get(first))}

    def shown(self, kind, each):
        if kind == "inventories":
            organization = {"name": self.one("organizations", each["organization"])["name"]}
            return {
                **each,
                "summary_fields": {**each["summary_fields"], "organization": organization},
            }
        if kind == "credentials":
            return {**each, "inputs": dict.fromkeys(each["inputs"], "$encrypted$")}
        if kind == "inventory_sources":
            return {
                **each,
                "organization": self.one("inventories", each["inventory"])["organization"],
            }
        if kind == "workflow_job_template_nodes":
            return {**each, **{name: list(self.members(kind, each["id"], name)) for name in EDGES}}
        return each

    def get(self, path, query):
        kind, *rest = path
        if not rest:
            return _listed(self.find(kind, query))
        if len(rest) == 1:
            return self.shown(kind, self.one(kind, rest[0]))
        if rest[1] == "survey_spec":
            return self.surveys.get(rest[0], {})
        if (kind, rest[1]) == ("projects", "playbooks"):
            return self.playbooks if self.one(kind, rest[0])["scm_revision"] else []
        if (kind, rest[1]) == ("project_updates", "stdout"):
            return {"range": {"start": 0}, "content": self.output}
        return _listed([{"id": number} for number in self.members(kind, *rest)])

    def write(self, method, path, data):
        """Return (status, answer)."""
        kind, *rest = path
        if method == "DELETE":
            self._delete(kind, self.one(kind, rest[0]))
            answer = 204, None
        elif (kind, rest) == ("bulk", ["host_create"]):
            answer = 201, self._bulk(data)
        elif not rest:
            self._check(kind, {**INITIAL.get(kind, {}), **data}, data)
            made = self.add(kind, **data)
            if kind == "projects":
                # AWX begins to synchronize it.
                made = {
                    **made,
                    "summary_fields": {
                        **made["summary_fields"],
                        "current_update": {"id": self._synchronize(made)["id"]},
                    },
                }
            answer = 201, made
        elif len(rest) == 1:
            awx_object = self.one(kind, rest[0])
            self._check(kind, {**awx_object, **data}, data, awx_object)
            awx_object.update(data)
            answer = 200, self.shown(kind, awx_object)
        elif rest[1] == "survey_spec":
            check_survey(data)
            self.surveys[rest[0]] = data
            answer = 200, {}
        elif (kind, rest[1]) == ("projects", "update"):
            answer = 202, self._synchronize(self.one(kind, rest[0]))
        elif rest[1] == "create_approval_template":
            made = self.add("workflow_approval_templates", **data)
            node = self.one(kind, rest[0])
            node["related"]["unified_job_template"], node["unified_job_template"] = (
                made["url"],
                made["id"],
            )
            answer = 201, made
        else:
            self._associate(kind, rest, data)
            answer = 204, None
        self.writes.append((method, "/".join(path), data))
        return answer

    def _bulk(self, data):
        names = [each["name"] for each in data["hosts"]]
        existing_names = {
            each["name"]
            for each in self.objects.get("hosts", ())
            if each["inventory"] == data["inventory"]
        }
        if len(names) > self.bulk:
            raise Refused(
                {"hosts": ["Number of hosts exceeds system setting BULK_HOST_MAX_CREATE"]}
            )
        if existing_names & set(names) or len(set(names)) < len(names):
            raise Refused(
                {
                    "__all__": [
                        "Hostnames must be unique in an inventory. Duplicates found:"
                        f" {sorted(existing_names & set(names))}"
                    ]
                }
            )
        if any(
            set(each) - {"name", "enabled", "variables", "description", "instance_id"}
            for each in data["hosts"]
        ):
            raise Refused({"hosts": ["An unknown field."]})
        return {
            "hosts": [
                self.add("hosts", inventory=data["inventory"], **each) for each in data["hosts"]
            ]
        }

    def _synchronize(self, project):
        if self.repository:
            project["scm_revision"] = "1"
        status = "successful" if self.repository else "failed"
        update = {
            "status": status,
            "scm_revision": project["scm_revision"],
            "finished": True,
            "failed": not self.repository,
        }
        return self.add("project_updates", project=project["id"], **update)

    def _delete(self, kind, found):
        self.objects[kind].remove(found)
        for numbers in self.lists.values():
            while found["id"] in numbers:
                numbers.remove(found["id"])

    # Refusals.

    def _check(self, kind, whole, data, before=None):
        for name, kinds in REFERENCES.items():
            if data.get(name) is None:
                continue
            kinds = kinds if isinstance(kinds, tuple) else (kinds,)
            if not any(
                each["id"] == data[name] for one in kinds for each in self.objects.get(one, ())
            ):
                raise Refused({name: [f'Invalid pk "{data[name]}" - object does not exist.']})
        if (
            kind == "inventories"
            and before
            and data.get("kind") is not None
            and data["kind"] != before["kind"]
        ):
            raise Refused(
                {
                    "error": (
                        'You cannot turn a regular inventory into a "smart" or "constructed"'
                        " inventory."
                    )
                },
                405,
            )
        if (
            kind in ("hosts", "groups", "inventory_sources")
            and self.one("inventories", whole["inventory"])["kind"] == "constructed"
        ):
            raise Refused({"detail": "Cannot create Host for Smart or Constructed Inventories"})
        if kind == "job_templates" and not self.one("projects", whole["project"])["scm_revision"]:
            raise Refused({"playbook": ["Playbook not found for project."]})
        if kind == "schedules":
            self._check_prompts(whole, required=True)
        if kind == "workflow_job_template_nodes":
            # Required variables may be answered when the workflow is started.
            self._check_prompts(whole, required=False)

    def _check_prompts(self, config, required):
        number = config.get("unified_job_template")
        started = [
            each
            for kind in JOB_TYPES.values()
            for each in self.objects.get(kind, ())
            if each["id"] == number
        ]
        if not started:
            return
        given = {name: config[name] for name in PROMPTS if config.get(name) not in (None, "")}
        errors = self.prompt_errors(started[0], config.get("extra_data") or {}, given, required)
        if "extra_vars" in errors:
            errors["extra_data"] = errors.pop("extra_vars")
        if errors:
            raise Refused(errors)

    def prompt_errors(self, template, answers, given=(), required=True):
        """Return AWX's errors for answers to the survey of a template, and for other fields of its
        launch."""
        errors, remaining = {}, dict(answers)
        if template.get("survey_enabled"):
            wrong = []
            for question in self.surveys[str(template["id"])]["spec"]:
                wrong += answer_errors(question, answers, required)
                remaining.pop(question["variable"], None)
            if wrong:
                errors["variables_needed_to_start"] = wrong
        if remaining and not template.get("ask_variables_on_launch"):
            errors["extra_vars"] = [f"Variables {', '.join(remaining)} are not allowed on launch."]
        for name in given:
            if not template.get(PROMPTS[name]):
                errors[name] = ["Field is not configured to prompt on launch."]
        return errors

    def _associate(self, kind, rest, data):
        members = self.members(kind, *rest)
        if data.get("disassociate"):
            members.remove(data["id"])
            return
        if rest[1] in EDGES:
            others = [name for name in EDGES if name != rest[1]]
            if any(data["id"] in self.members(kind, rest[0], name) for name in others):
                raise Refused({"Error": "Relationship not allowed."})
            if int(rest[0]) in self._after(data["id"]):
                raise Refused({"Error": "Cycle detected."})
        members.append(data["id"])

    def _after(self, number):
        """Yield a node and all nodes that may run after it."""
        numbers = {number}
        for name in EDGES:
            for each in self.members("workflow_job_template_nodes", number, name):
                numbers |= self._after(each)
        return numbers

    # Actions of AWX on its objects.

    def launch(self, kind, name, answers, **given):
        """Return AWX's answer: {} if the job is started. A job ignores fields that its template
        does not prompt for; a workflow is refused."""
        found = self.named(kind, name)
        return self.prompt_errors(found, answers, given if kind == "workflow_job_templates" else ())

    def sync(self, source, hosts):
        """Import {host: (variables, groups)} as the inventory source does it."""
        source = self.named("inventory_sources", source)
        inventory = source["inventory"]
        theirs, groups_of = (
            self.members("inventory_sources", source["id"], "hosts"),
            self.members("inventory_sources", source["id"], "groups"),
        )
        existing = {
            each["name"]: each
            for each in self.objects.get("hosts", ())
            if each["inventory"] == inventory
        }
        if source["overwrite"]:
            for stale_host in [
                each
                for each in existing.values()
                if each["id"] in theirs and each["name"] not in hosts
            ]:
                self._delete("hosts", stale_host)
            named = {group for dummy, groups in hosts.values() for group in groups}
            for group in [
                each for each in self.objects.get("groups", ()) if each["id"] in groups_of
            ]:
                if group["name"] not in named:
                    self._delete("groups", group)
                else:
                    members = self.members("groups", group["id"], "hosts")
                    members[:] = [number for number in members if number not in theirs]
        for name, (variables, groups) in hosts.items():
            host = existing.get(name) or self.add(
                "hosts", name=name, inventory=inventory, description="imported"
            )
            old = {} if source.get("overwrite_vars") else json.loads(host["variables"] or "{}")
            host["variables"] = json.dumps({**old, **variables})
            theirs.append(host["id"])
            for group in groups:
                found = [
                    each
                    for each in self.objects.get("groups", ())
                    if (each["name"], each["inventory"]) == (group, inventory)
                ]
                (found,) = found or [self.add("groups", name=group, inventory=inventory)]
                groups_of.append(found["id"])
                self.members("groups", found["id"], "hosts").append(host["id"])

    def hosts_of(self, inventory):
        """Return {host: (variables, names of its groups)} of an inventory. A constructed inventory
        has the hosts of all its input inventories."""
        inventory = self.named("inventories", inventory)
        inputs = (
            self.members("inventories", inventory["id"], "input_inventories")
            if inventory["kind"] == "constructed"
            else [inventory["id"]]
        )
        by_name = {}
        for number in inputs:
            for host in [
                each for each in self.objects.get("hosts", ()) if each["inventory"] == number
            ]:
                variables, groups = by_name.setdefault(host["name"], ({}, set()))
                variables.update(json.loads(host["variables"] or "{}"))
                groups |= {
                    each["name"]
                    for each in self.objects.get("groups", ())
                    if host["id"] in self.members("groups", each["id"], "hosts")
                }
        return by_name

    def ends(self, workflow, failing):
        """Return (status of the workflow, identifiers of the nodes in the order of their run) if
        these nodes fail."""
        number = self.named("workflow_job_templates", workflow)["id"]
        nodes = {
            each["id"]: each
            for each in self.objects["workflow_job_template_nodes"]
            if each["workflow_job_template"] == number
        }

        def after(each, *kinds):
            return [
                one
                for kind in kinds
                for one in self.members("workflow_job_template_nodes", each, kind)
            ]

        children = {one for each in nodes for one in after(each, *EDGES)}
        due, ran, status = [each for each in nodes if each not in children], [], "successful"
        while due:
            node = due.pop(0)
            ran.append(nodes[node]["identifier"])
            failed = nodes[node]["identifier"] in failing
            # A failure that a later node handles is not a failure of the workflow.
            if failed and not after(node, "failure_nodes", "always_nodes"):
                status = "failed"
            due += after(node, "failure_nodes" if failed else "success_nodes", "always_nodes")
        return status, ran


def check_survey(survey):
    """Refuse a survey that AWX does not take."""
    for name, kind in (("name", str), ("description", str), ("spec", list)):
        if not isinstance(survey.get(name), kind):
            raise Refused({"error": f"Field '{name}' is missing from survey spec."})
    seen = set()
    for at, question in enumerate(survey["spec"]):
        for name in ("type", "question_name", "variable", "required"):
            if not isinstance(question.get(name), bool if name == "required" else str):
                raise Refused(
                    {"error": f"'{name}' in survey question {at} is missing or of another type."}
                )
        if question["variable"] in seen:
            raise Refused(
                {
                    "error": (
                        f"'variable' '{question['variable']}' duplicated in survey question {at}."
                    )
                }
            )
        seen.add(question["variable"])
        kind = SURVEY_TYPES[question["type"]]
        default = question.get("default", "")
        if default != "" and (not isinstance(default, kind) or isinstance(default, bool)):
            raise Refused(
                {
                    "error": (
                        f"Default value {default} in survey question {at} expected to be"
                        f" {kind.__name__}."
                    )
                }
            )
        if any(not isinstance(question.get(name, 0), int) for name in ("min", "max")):
            raise Refused(
                {"error": f"The min limit in survey question {at} expected to be integer."}
            )
        if question["type"] in ("multiplechoice", "multiselect") and any(
            each not in question["choices"] for each in str(default).splitlines()
        ):
            raise Refused({"error": "Default choice must be answered from the choices listed."})


def answer_errors(question, answers, required=True):
    """Return AWX's errors for the answer to a question; an empty list if AWX takes it."""
    name = question["variable"]
    if name not in answers:
        return [f"'{name}' value missing"] if question["required"] and required else []
    value, kind = answers[name], question["type"]
    if kind in ("text", "textarea", "password"):
        if not isinstance(value, str):
            return [f"Value {value} for '{name}' expected to be a string."]
        if len(value) < question.get("min", 0):
            return [
                f"'{name}' value {value} is too small (length is {len(value)} must be at least"
                f" {question['min']})."
            ]
    elif kind == "integer":
        if not isinstance(value, int) or isinstance(value, bool):
            return [f"Value {value} for '{name}' expected to be an integer."]
        if value < question.get("min", value):
            return [f"'{name}' value {value} is too small (must be at least {question['min']})."]
    elif kind == "multiplechoice":
        if value not in question["choices"]:
            return [f"Value {value} for '{name}' expected to be one of {question['choices']}."]
    elif kind == "multiselect":
        return [
            f"Value {each} for '{name}' expected to be one of {question['choices']}."
            for each in value
            if each not in question["choices"]
        ]
    return []


def _listed(found):
    return {"count": len(found), "next": None, "results": found}


@contextlib.contextmanager
def running(*machine_credentials):
    """Return an Awx that answers at its ``url``, with the organization Default and these
    credentials."""
    awx = Awx()
    awx.add("organizations", name="Default")
    machine = awx.add("credential_types", name="Machine")
    for name in machine_credentials:
        awx.add("credentials", name=name, credential_type=machine["id"], inputs={})

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self, status, body):
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("X-API-Product-Name", "AWX")
            self.send_header("X-API-Product-Version", "24.6.1")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _asked(self):
            asked = urllib.parse.urlsplit(self.path)
            return asked.path.strip("/").split("/")[2:], dict(urllib.parse.parse_qsl(asked.query))

        def do_GET(self):
            try:
                answer = 200, awx.get(*self._asked())
            except Refused as refused:
                answer = refused.status, refused.words
            self._answer(*answer)

        def _write(self):
            data = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
            try:
                answer = awx.write(self.command, self._asked()[0], data)
            except Refused as refused:
                answer = refused.status, refused.words
            self._answer(*answer)

        do_POST = do_PATCH = do_DELETE = _write

        def log_message(self, *dummy):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    awx.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield awx
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
