"""A page in a real browser: Chromium, driven through two pipes by its own protocol."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time

import pytest

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--remote-debugging-pipe",
)  # fmt: skip
_PATIENCE = 60.0
_LAUNCH = """
import os, sys
for place, end in enumerate(sys.argv[1:3], 3):
    os.dup2(int(end), place)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One process, and as many pages as are opened."""

    def __init__(self, profile):
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        if found is None:
            pytest.skip("chromium is not on the PATH, and pages are tested in a real browser")
        told, self._tell = os.pipe()
        self._hear, heard = os.pipe()
        # Chromium listens at 3 and answers at 4, which may be other files here.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (told, heard)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *map(str, ends), found, *_FLAGS,
             f"--user-data-dir={profile}"],
            pass_fds=ends, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        for end in (told, heard, *ends):
            os.close(end)
        self._rest, self._number, self.events = b"", 0, []

    def close(self):
        self.call("Browser.close")
        self.process.wait(timeout=_PATIENCE)
        os.close(self._tell)
        os.close(self._hear)

    def call(self, method, session=None, **parameters):
        """Ask for something and return the answer; what happens meanwhile is kept."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            asked["sessionId"] = session
        os.write(self._tell, json.dumps(asked).encode() + b"\0")
        while (said := self._next()).get("id") != self._number:
            self.events.append(said)
        assert "error" not in said, said
        return said["result"]

    def wait(self, method, session):
        """Wait until something happens."""
        while not any(e["method"] == method and e["sessionId"] == session for e in self.events):
            self.events.append(self._next())

    def _next(self):
        end = time.monotonic() + _PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._hear], [], [], max(end - time.monotonic(), 0.0))
            assert ready, "the browser says nothing"
            part = os.read(self._hear, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, path):
        """Open a page and wait until it is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        for part in ("Page", "Runtime", "Log"):
            page.call(f"{part}.enable")
        page.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired", page.session)
        return page


class Page:
    """A page that is open."""

    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def ask(self, code):
        """Return what the body of a function in JavaScript returns."""
        found = self.call(
            "Runtime.evaluate", expression=f"(async () => {{ {code} }})()", awaitPromise=True,
            returnByValue=True,
        )  # fmt: skip
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    @property
    def complaints(self):
        """What the console said."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [
            event["params"]
            for event in self.browser.events
            if event.get("sessionId") == self.session and event["method"] in kinds
        ]
