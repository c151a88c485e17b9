# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of the API of AWX as the modules of awx.awx use: objects that are made, found by their fields and changed.

It keeps what it is given and checks nothing: whether AWX would take it is what test_configuration.py looks at.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import urllib.parse

JOB_TYPES = {
    "job_template": "job_templates",
    "workflow_job_template": "workflow_job_templates",
    "inventory_source": "inventory_sources",
    "project": "projects",
}
# What an object has that nobody has said yet.
INITIAL = {
    "projects": {"scm_revision": "1", "credential": None},
    "workflow_job_template_nodes": {"unified_job_template": None, "extra_data": {}},
    "inventories": {"kind": None, "host_filter": None},
}


class Awx:
    """The objects: ``objects[kind]`` is a list of dicts; ``writes`` says what was posted and patched."""

    def __init__(self):
        self.objects, self.lists, self.surveys, self.writes = {}, {}, {}, []
        self.url = None
        self._last = 0

    def add(self, kind, /, **fields):
        self._last += 1
        number = self._last
        url = f"/api/v2/{kind}/{number}/"
        made = {
            "id": number,
            "url": url,
            "related": {name: f"{url}{name}/" for name in ("survey_spec", "hosts", "children")},
            "summary_fields": {},
            **INITIAL.get(kind, {}),
            **fields,
        }
        self.objects.setdefault(kind, []).append(made)
        return made

    def find(self, kind, wanted):
        if kind == "unified_job_templates":
            kinds = [JOB_TYPES[wanted["type"]]] if wanted.get("type") in JOB_TYPES else []
            kinds = kinds or ([] if "type" in wanted else list(JOB_TYPES.values()))
        else:
            kinds = [kind]
        wanted = {name: value for name, value in wanted.items() if name not in ("type", "page_size")}
        shown = [self.shown(name, each) for name in kinds for each in self.objects.get(name, ())]
        return [each for each in shown if all(str(each.get(key)) == value for key, value in wanted.items())]

    def shown(self, kind, each):
        if kind == "credentials":
            return {**each, "inputs": dict.fromkeys(each["inputs"], "$encrypted$")}
        if kind == "inventory_sources":
            (inventory,) = [one for one in self.objects["inventories"] if one["id"] == each["inventory"]]
            return {**each, "organization": inventory["organization"]}
        return each

    def one(self, kind, number):
        (found,) = [each for each in self.objects.get(kind, ()) if each["id"] == int(number)]
        return found

    def get(self, path, query):
        kind, *rest = path
        if not rest:
            return _listed(self.find(kind, query))
        if len(rest) == 1:
            return self.shown(kind, self.one(kind, rest[0]))
        if rest[1] == "survey_spec":
            return self.surveys.get(rest[0], {})
        members = self.lists.get((kind, *rest), [])
        return _listed([{"id": number} for number in members])

    def write(self, method, path, data):
        """Returns (status, answer)."""
        kind, *rest = path
        self.writes.append((method, "/".join(path), data))
        if not rest:
            return 201, self.add(kind, **data)
        if len(rest) == 1:
            found = self.one(kind, rest[0])
            found.update(data)
            return 200, self.shown(kind, found)
        if rest[1] == "survey_spec":
            self.surveys[rest[0]] = data
            return 200, {}
        if rest[1] == "create_approval_template":
            made = self.add("workflow_approval_templates", **data)
            self.one(kind, rest[0])["related"]["unified_job_template"] = made["url"]
            return 201, made
        members = self.lists.setdefault((kind, *rest), [])
        if data.get("disassociate"):
            members.remove(data["id"])
        else:
            members.append(data["id"])
        return 204, None


def _listed(found):
    return {"count": len(found), "next": None, "results": found}


@contextlib.contextmanager
def running(*machine_credentials):
    """An Awx that answers at its ``url``, with the organization Default and these credentials."""
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
            self._answer(200, awx.get(*self._asked()))

        def _write(self):
            data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._answer(*awx.write(self.command, self._asked()[0], data))

        do_POST = do_PATCH = _write

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
