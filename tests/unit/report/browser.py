# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headless Chromium over WebDriver, without a Python package: Debian's chromium and
chromium-driver.
"""

from __future__ import annotations

import base64
import contextlib
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import pytest

START_SECONDS = 60
CALL_SECONDS = 120
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--window-size=1280,900",
)
PHONE = 360


class Browser:
    """One window."""

    def __init__(self, port, profile):
        self._base = f"http://127.0.0.1:{port}/session"
        answer = self._call(
            "",
            {
                "capabilities": {
                    "alwaysMatch": {
                        "goog:chromeOptions": {"args": [*FLAGS, f"--user-data-dir={profile}"]},
                        "goog:loggingPrefs": {"browser": "ALL"},
                    }
                }
            },
        )
        self._base += "/" + answer["sessionId"]

    def open(self, path):
        """Load a page and forget the console messages of earlier ones."""
        self.console()
        self._call("/url", {"url": pathlib.Path(path).as_uri()})

    def ask(self, script, *arguments):
        """Run the body of a JavaScript function and return its result."""
        return self._call("/execute/sync", {"script": script, "args": list(arguments)})

    def console(self):
        """Return the console messages since the last call, with errors of the page and of its
        policy."""
        return [
            f"{each['level']}: {each['message']}"
            for each in self._call("/se/log", {"type": "browser"})
        ]

    def command(self, name, **parameters):
        """Send a command of the DevTools protocol."""
        return self._call("/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width, height=900, phone=False):
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def media(self, kind="", **features):
        named = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.command("Emulation.setEmulatedMedia", media=kind, features=named)

    def view(self, path):
        """Write a picture of the whole page, for people."""
        data = self.command("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def view_of_window(self, path):
        """Write a picture of the visible part of the page."""
        data = self.command("Page.captureScreenshot")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def pdf(self):
        return base64.b64decode(self.command("Page.printToPDF", printBackground=False)["data"])

    def _call(self, path, body):
        request = urllib.request.Request(
            self._base + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=CALL_SECONDS) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            raise AssertionError(json.load(problem)["value"]["message"]) from None


@contextlib.contextmanager
def running():
    """Yield a Browser. Its processes end with the block."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            pytest.fail(
                f"the report is tested in a browser, and {program} is missing: tests/setup/setup.sh"
                " browser",
                pytrace=False,
            )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(
        prefix="drover-browser-", ignore_cleanup_errors=True
    ) as folder:
        driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait(port, driver)
            browser = Browser(port, f"{folder}/profile")
            try:
                yield browser
            finally:
                with contextlib.suppress(AssertionError, OSError):
                    request = urllib.request.Request(browser._base, method="DELETE")
                    urllib.request.urlopen(request, timeout=CALL_SECONDS).close()
        finally:
            with contextlib.suppress(ProcessLookupError):
                # Only this process uses the group of the driver; browsers are its children.
                driver.send_signal(signal.SIGTERM)
            driver.wait(timeout=START_SECONDS)


def _wait(port, driver):
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and driver.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    pytest.fail("chromedriver does not answer", pytrace=False)
