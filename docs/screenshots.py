"""Make the pictures of the docs: a notebook, and the report of the demo's rollouts, three of them broken.

The logprobs of one are off by one position, in another a turn of the environment is marked as sampled, and a
third waited thirty hours. Needs the extra `dev`, chromium and chromedriver.

    python docs/screenshots.py [--output docs/images]
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import shutil
import sys
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any, Final

from PIL import Image
from selenium import webdriver

import provenance
from provenance.demo import data
from provenance.demo.faults import FAULTS
from provenance.generate import generate
from provenance.ledger.sql import SqlLedger

#: Picture -> the element that it begins with, the one that it ends with, and the scheme of the page.
PICTURES: Final = {
    "report.png": ("body", "#SEQ002", "light"),
    "report-dark.png": ("body", "#SEQ002", "dark"),
    "span-map.png": ("#datum-1", "#datum-1", "light"),
    "distributions.png": ("#distributions", "#distributions", "light"),
}
#: The same of what a notebook shows.
NOTEBOOK: Final = {"notebook.png": ("body", "body", "light")}
WIDTH: Final = 1100
#: Pixels left around what is shown.
MARGIN: Final = 16
COLORS: Final = 128
LARGEST: Final = 200_000


def broken_rollouts(ledger: SqlLedger, folder: Path) -> Path:
    """The demo's rollouts with three faults among them."""
    path = folder / "rollouts.jsonl"
    model, groups = data.sample_and_record(ledger)
    datums = data.build(groups, path)
    rows = [datum.model_dump(mode="json") for datum in datums]
    scored = [row for row in rows if any(row["loss_fn_inputs"]["advantages"]["data"])]
    shift = next(fault for fault in FAULTS if fault.codes == ("SEQ006",))
    shift.change(scored[1])
    mark_observation(scored[5])
    data.break_some(model, ledger, datums, folder / "faults.jsonl")
    stale = (folder / "faults.jsonl").read_text(encoding="utf-8").splitlines()[-1]
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, json.loads(stale)]), encoding="utf-8")
    return path


def mark_observation(row: dict[str, Any]) -> None:
    """Say of the environment's first turn that the model sampled it."""
    for spans in (row["model_input_spans"], row["loss_fn_input_spans"]):
        spans[2]["type"] = "sampled"


def page() -> str:
    """The report of these rollouts."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), SqlLedger("ledger.db") as ledger:
        path = broken_rollouts(ledger, Path())
        return provenance.check(path, ledger=ledger, session=data.SESSION, observe=True).to_html()


def notebook() -> str:
    """A datum and a report as a notebook shows them, under the code that makes them."""
    dataset = generate(4, seed=1, turns=2, break_="SEQ003").dataset
    datum = provenance.Datum.model_validate(dataset.datums[0])
    cells = {"datum": datum._repr_html_(), "report": dataset.report()._repr_html_()}
    shown = "".join(f"<pre>{code}</pre>{html}" for code, html in cells.items())
    style = "font:14px sans-serif;margin:16px"
    return f'<!doctype html><meta charset="utf-8"><body style="{style}">{shown}</body>'


def open_browser() -> Any:
    options = webdriver.ChromeOptions()
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        sys.exit("chromium and chromedriver have to be installed")
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


def picture_of(browser: Any, first: str, last: str, scheme: str) -> bytes:
    """A part of the page as PNG, of few colours."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    top, bottom = browser.execute_script(
        "const box = selector => document.querySelector(selector).getBoundingClientRect();"
        "return [box(arguments[0]).top + scrollY, box(arguments[1]).bottom + scrollY]",
        first,
        last,
    )
    start = max(top - MARGIN, 0)
    clip = {"x": 0, "y": start, "width": WIDTH, "height": bottom + MARGIN - start, "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    image = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    packed = io.BytesIO()
    image.quantize(COLORS, dither=Image.Dither.NONE).save(packed, "PNG", optimize=True)
    return packed.getvalue()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "images")
    output: Path = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    too_large = False
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        browser.set_window_size(WIDTH, 900)
        path = Path(folder, "page.html")
        for html, pictures in ((page(), PICTURES), (notebook(), NOTEBOOK)):
            path.write_text(html, encoding="utf-8")
            browser.get(path.as_uri())
            for name, (first, last, scheme) in pictures.items():
                png = picture_of(browser, first, last, scheme)
                (output / name).write_bytes(png)
                too_large |= len(png) > LARGEST
                print(f"{output / name}: {len(png):,} bytes")
    return int(too_large)


if __name__ == "__main__":
    sys.exit(main())
