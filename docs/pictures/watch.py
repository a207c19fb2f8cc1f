"""Takes a picture of the page that `pool watch` shows: `python docs/pictures/watch.py RUN_FOLDER... PICTURE.png`.

Needs Debian's chromium and Pillow.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

from pool.watch.contents import Watch
from pool.watch.page import page_of

WIDTH, HEIGHT = 1360, 2400
BROWSER = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000")


def screenshot(page: str) -> Image.Image:
    """The page as high as it is: what is empty below is cut off."""
    with tempfile.TemporaryDirectory() as folder:
        file, picture = Path(folder, "page.html"), Path(folder, "page.png")
        file.write_text(page, encoding="utf-8")
        size = (f"--window-size={WIDTH},{HEIGHT}", f"--user-data-dir={folder}/profile", f"--screenshot={picture}")
        subprocess.run([*BROWSER, *size, file.as_uri()], check=True, capture_output=True)
        image = Image.open(io.BytesIO(picture.read_bytes())).convert("RGB")
    empty = Image.new("RGB", image.size, "white")
    box = ImageChops.difference(image, empty).getbbox() or (0, 0, 0, HEIGHT)
    return image.crop((0, 0, WIDTH, min(HEIGHT, box[3] + 16)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    page = page_of(Watch(arguments.runs).look())
    screenshot(page).quantize(128).save(arguments.picture, optimize=True)


if __name__ == "__main__":
    main()
