"""Draws the pictures of the tutorials by running them: the last lines of each save its own.

Run: python tools/pictures.py
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    """Run every tutorial in a folder of its own, and keep what it drew."""
    from test_pages import run_page

    wanted, home = sys.argv[1:], tempfile.TemporaryDirectory()
    for page in sorted((ROOT / "docs/tutorials").glob("*.md")):
        if page.stem == "index" or (wanted and page.stem not in wanted):
            continue
        folder = Path(home.name) / page.stem
        folder.mkdir()
        os.chdir(folder)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        run_page(page)
        for picture in folder.glob("*.png"):
            kept = ROOT / "docs/images/tutorials" / picture.name
            kept.write_bytes(picture.read_bytes())
            print(kept.name, f"{kept.stat().st_size:,} bytes")
        os.chdir(ROOT)
    home.cleanup()


if __name__ == "__main__":
    main()
