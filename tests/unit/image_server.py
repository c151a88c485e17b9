# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server of images on the loopback, for tests: with ranges or not, slow, cut off, and with a
count of its requests."""

from __future__ import annotations

import http.server
import threading
import time


class Server:
    """A server of ``content`` under every path.

    parts: it supports ranges. slow: seconds for each piece of 64 KiB. cut: number of bytes after
    which it closes the connection. status: the status of each answer in place of the content.
    """

    def __init__(self):
        self.content, self.parts, self.slow, self.cut, self.status = b"", True, 0.0, None, None
        #: (first requested byte) of each request.
        self.asked = []
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802
                served.answer(self)

            def log_message(self, *dummy):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        # A client may disconnect at any time.
        self.server.handle_error = lambda *dummy: None
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/debian-12.qcow2"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        byte_range = request.headers.get("Range")
        first = int(byte_range.removeprefix("bytes=").rstrip("-")) if byte_range else 0
        self.asked.append(first)
        if self.status:
            request.send_error(self.status)
            return
        if byte_range and self.parts and first >= len(self.content):
            request.send_error(416)
            return
        if not self.parts:
            first = 0
        request.send_response(206 if byte_range and self.parts else 200)
        request.send_header("Content-Length", str(len(self.content) - first))
        if self.parts:
            request.send_header("Accept-Ranges", "bytes")
        request.end_headers()
        last = len(self.content) if self.cut is None else min(len(self.content), first + self.cut)
        for start in range(first, last, 1 << 16):
            request.wfile.write(self.content[start : min(start + (1 << 16), last)])
            time.sleep(self.slow)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
