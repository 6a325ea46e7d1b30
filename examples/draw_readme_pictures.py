"""Draw the pictures of the README: the demo's report as Chromium shows it.

Run from the project's root, with ``chromium`` on the PATH.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--hide-scrollbars",
)  # fmt: skip
# Name, height of what is seen, and what else the browser is told.
_PICTURES = (("report.png", 1480, ()), ("report-dark.png", 780, ("--force-dark-mode",)))
_WIDTH = 1100


def main() -> None:
    """Run the demo and photograph its report."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("chromium is not on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        demo, profile = Path(folder, "demo"), Path(folder, "profile")
        subprocess.run([sys.executable, "-m", "spibb", "demo", "--out", str(demo)], check=True)
        for name, height, more in _PICTURES:
            picture = Path("docs/images", name).resolve()
            picture.parent.mkdir(exist_ok=True)
            size = (f"--window-size={_WIDTH},{height}", f"--screenshot={picture}")
            page = (f"--user-data-dir={profile}", (demo / "report.html").as_uri())
            command = [browser, *_FLAGS, *more, *size, *page]
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=60)


if __name__ == "__main__":
    main()
