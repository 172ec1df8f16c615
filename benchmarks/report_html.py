"""What does the HTML page cost where a dataset has a million violations, and how soon can it be read?

Every second input token of the datums is another, and every second logprob 2 too low, so that violations
cannot be told together. The same check without the page is the floor; each has a fresh process on two cores.
The page is then opened in headless Chromium, which needs Selenium, chromium and chromedriver; without these
that figure is left out. Exit code 1: a target is missed.

    python benchmarks/report_html.py [--tokens N] [--repeats N] [--dir PATH]
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import _data

POSITIONS = 500
TOKENS = 3_000_000
RSS, MEGABYTES, SECONDS = 1.5, 5.0, 2.0


def sized(tokens: int, folder: str | None) -> _data.Dataset:
    """The dataset of about so many tokens."""
    return _data.dataset(max(1, tokens // POSITIONS), tokens, folder=folder)


def broken(data: _data.Dataset) -> str:
    """The file of the broken datums, written where it is not there yet."""
    path = Path(data.data("-torn.parquet"))
    if not path.exists():
        import pyarrow.parquet as pq

        source, part = pq.ParquetFile(data.data(".parquet")), path.with_suffix(".part")
        with pq.ParquetWriter(part, source.schema_arrow, compression="zstd") as writer:
            for batch in source.iter_batches(_data.BLOCK):
                writer.write_batch(torn(batch))
        part.replace(path)
    return str(path)


def torn(batch: Any) -> Any:
    """The datums of a batch after these faults."""
    import numpy as np
    import pyarrow as pa

    for name, change in (("model_input_tokens", 1), ("logprobs", np.float32(-2))):
        column = batch.column(name)
        values = column.flatten().to_numpy(zero_copy_only=False).copy()
        values[::2] += change
        lists = pa.ListArray.from_arrays(column.offsets, pa.array(values))
        batch = batch.set_column(batch.schema.get_field_index(name), name, lists)
    return batch


def page_of(data: _data.Dataset) -> Path:
    """Where the page of a dataset is written."""
    return Path(data.data("-torn.html"))


def checking(data: _data.Dataset, what: str) -> Callable[[], object]:
    import provenance.engine

    file = broken(data)

    def work() -> None:
        report = provenance.engine.check(
            file,
            "stable_reinforce",
            ledger=data.sequences(".parquet"),
            session=_data.SESSION,
            now=_data.NOW,
            observe=what != "check",
        )
        if what == "page":
            page_of(data).write_text(report.to_html(), encoding="utf-8")
            page_of(data).with_suffix(".txt").write_text(str(report.errors + report.warnings))

    return work


def load_seconds(page: Path, repeats: int) -> float | None:
    """Seconds from the start of opening the page until it is laid out; None where there is no browser."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        return None
    if chromium is None or driver is None:
        return None
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    script = (
        "document.body.getBoundingClientRect();"
        "return Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd, performance.now())"
    )
    taken = []
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as browser:
        for _ in range(repeats):
            browser.get(page.as_uri())
            taken.append(float(browser.execute_script(script)) / 1000)
    return median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--tokens", type=int, default=TOKENS, help="positions of all datums; default %(default)s"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--dir", help="where the data are kept; default is the folder for temporary files")
    parser.add_argument("--measure", choices=["check", "observe", "page"])
    options = parser.parse_args()
    data = sized(options.tokens, options.dir)
    if options.measure:
        work = checking(data, options.measure)
        import provenance.reports.html  # noqa: F401 - what a check costs is without imports

        _data.report_cost(work)
        return 0

    cores = _data.two_cores()
    broken(data)
    same = ["--tokens", str(options.tokens), *(["--dir", options.dir] if options.dir else [])]
    runs = {what: [what, *same] for what in ("check", "observe", "page")}
    results = _data.costs(__file__, runs, options.repeats)
    print(f"{cores} cores; {data.size}; {int(page_of(data).with_suffix('.txt').read_text()):,} violations")
    _data.print_costs(results, options.repeats)
    print(f"CPU, observe / check: {results['observe'].cpu / results['check'].cpu:.3g}x")
    print(f"CPU of the page itself: {results['page'].cpu - results['observe'].cpu:.3g} s")
    good = [
        _data.met("RSS, page / check", results["page"].rss / results["check"].rss, RSS, unit="x"),
        _data.met("size of the page", page_of(data).stat().st_size / 1e6, MEGABYTES, unit=" MB"),
    ]
    seconds = load_seconds(page_of(data), options.repeats)
    if seconds is None:
        print("until the page is there: no browser")
    else:
        good.append(_data.met("until the page is there", seconds, SECONDS, unit=" s"))
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
