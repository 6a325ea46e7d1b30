"""Pages as a real browser shows them: its console, and what a script finds after acting on it."""

import json
import re
import shutil
import subprocess

import pytest

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--enable-logging=stderr",
)  # fmt: skip


def show(page, profile):
    """Return the page as Chromium shows it, and what its console said."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("chromium is not on the PATH, and pages are tested in a real browser")
    done = subprocess.run(
        [browser, *_FLAGS, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, encoding="utf-8", timeout=80, check=True,
    )  # fmt: skip
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def probe(page, profile, code):
    """Return what a function of JavaScript returns in a page, and what the console said.

    The page allows no script but its own, so that a copy is tried that allows this one too.
    """
    text = page.read_text("utf-8")
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy.*?>", "", text)
    found = "document.getElementById('probe').textContent = JSON.stringify(found)"
    act = f"(async () => {{ const found = await ({code})(); {found} }})()"
    script = f"<pre id=probe></pre><script>{act}</script>"
    copy = page.with_name("probed.html")
    copy.write_text(text.replace("</body>", script + "</body>"), encoding="utf-8")
    dom, said = show(copy, profile)
    answer = re.search(r"<pre id=\"probe\">(.*?)</pre>", dom, re.S)[1]
    for entity, mark in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        answer = answer.replace(entity, mark)
    return json.loads(answer), said
