"""Draws docs/images/report.png: the top of the page that the README's own commands write.

Run: python tools/report_picture.py (chromium on the path, or named by DUSHAPLEY_CHROMIUM)
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/images/report.png"
WINDOW = {"width": 1080, "height": 1120}


def main() -> None:
    """Run the demo's commands in a folder of their own, open the page, and keep what is seen."""
    with tempfile.TemporaryDirectory() as folder:
        for command in re.findall(r"^dushapley (?:demo|value) .*$", _readme(), re.MULTILINE):
            subprocess.run(  # noqa: S603 - our own interpreter, and commands of our own README
                [sys.executable, "-m", "dushapley", *shlex.split(command)[1:]],
                cwd=folder, env=os.environ | {"XDG_STATE_HOME": folder}, check=True,
            )  # fmt: skip
        photograph(Path(folder) / "report.html")
    print(PICTURE.name, f"{PICTURE.stat().st_size:,} bytes")


def _readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def photograph(page: Path) -> None:
    """Keep the top of a page as it is seen in a window of the picture's size."""
    from PIL import Image
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT / "tests"))
    from conftest import FLAGS

    chromium = os.environ.get("DUSHAPLEY_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        window = browser.new_page(viewport=WINDOW, device_scale_factor=1.4)
        window.goto(page.as_uri())
        window.screenshot(path=PICTURE)
        browser.close()
    small = Image.open(PICTURE).convert("RGB").quantize(method=Image.Quantize.MAXCOVERAGE)
    small.save(PICTURE, optimize=True)  # 256 colours; other ways of choosing them lose the accent


if __name__ == "__main__":
    main()
