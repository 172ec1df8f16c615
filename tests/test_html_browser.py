"""The page of a report in a real browser: headless Chromium, driven by Selenium."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_html import HOSTILE, MULTI, broken, check, long_datum

import provenance
from provenance.demo import data
from provenance.ledger.sql import SqlLedger
from provenance.report import Report

AXE = "axe-core@4.14.1"

pytestmark = pytest.mark.slow

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.common.by import By  # noqa: E402 - it may be absent
from selenium.webdriver.common.keys import Keys  # noqa: E402


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no chromium, or no chromedriver, is installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with webdriver.Chrome(options=options, service=webdriver.ChromeService(driver)) as opened:
        opened.set_script_timeout(120)
        yield opened


@pytest.fixture(autouse=True)
def plain_window(browser: Any) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    browser.set_window_size(1280, 900)
    use_scheme(browser, "light")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The demo's broken datums, of which some are in a second file."""
    folder = tmp_path_factory.mktemp("demo")
    with SqlLedger(str(folder / "ledger.db")) as ledger:
        model, groups = data.sample_and_record(ledger)
        datums = data.build(groups, folder / "datums.jsonl")
        data.break_some(model, ledger, datums, folder / "broken.jsonl")
        lines = (folder / "broken.jsonl").read_bytes().splitlines(keepends=True)
        (folder / "first.jsonl").write_bytes(b"".join(lines[:4]))
        (folder / "second.jsonl").write_bytes(b"".join(lines[4:]))
        files = [folder / "first.jsonl", folder / "second.jsonl"]
        return provenance.check(files, ledger=ledger, session=data.SESSION, observe=True)


@pytest.fixture(scope="module")
def page(demo: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(demo.to_html(), encoding="utf-8")
    return path


def hostile_report(folder: Path) -> Report:
    """One datum for each hostile text, which stands wherever data can put it."""
    datums = []
    for text in HOSTILE:
        datum = broken("model_input_spans.0.sequence_id", text).datums[0]
        datum["loss_fn_inputs"][text] = {"data": [1.0], "dtype": text, "shape": [1]}
        datums.append(datum)
    path = folder / "a<img src=x onerror=alert(1)>.jsonl"
    path.write_text("".join(json.dumps(datum) + "\n" for datum in datums), encoding="utf-8")
    # Of rules that no gate stops, so that ids reach every message about spans.
    more = [broken("loss_fn_input_spans.0.sequence_id", text).datums[0] for text in HOSTILE]
    other = folder / "b'\"&amp;.jsonl"
    other.write_text("".join(json.dumps(datum) + "\n" for datum in more), encoding="utf-8")
    return provenance.check(
        [path, other], ledger=list(MULTI.sequences), session=HOSTILE[0], now=MULTI.now, observe=True
    )


def write(report: Report, folder: Path) -> Path:
    path = folder / "report.html"
    path.write_text(report.to_html(), encoding="utf-8")
    return path


def use_scheme(browser: Any, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def open_page(browser: Any, path: Path | str) -> None:
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path if isinstance(path, str) else path.as_uri())


def requests_of(browser: Any) -> list[str]:
    """Addresses that the browser asked for since the page was opened."""
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith("data:")]


def shown(browser: Any, selector: str) -> list[Any]:
    return [e for e in browser.find_elements(By.CSS_SELECTOR, selector) if e.is_displayed()]


def color(browser: Any, selector: str, name: str) -> str:
    script = "return getComputedStyle(document.querySelector(arguments[0])).getPropertyValue(arguments[1])"
    return str(browser.execute_script(script, selector, name))


def overflow(browser: Any) -> int:
    return int(
        browser.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    )


def test_it_opens_without_a_complaint_or_a_request(browser: Any, page: Path) -> None:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(page.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/report.html"
        open_page(browser, url)
        assert requests_of(browser) == [url]
        assert browser.get_log("browser") == []
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
        server.shutdown()


def test_the_policy_stops_what_the_page_does_not_bring(browser: Any, page: Path) -> None:
    open_page(browser, page)
    browser.execute_script(
        "document.body.insertAdjacentHTML('beforeend', "
        "'<img src=http://127.0.0.1:9/x onerror=window.bad=1>"
        "<p id=late style=color:red onclick=window.bad=1>x')"
    )
    shown(browser, "#late")[0].click()
    assert browser.execute_script("return window.bad") is None
    assert len(browser.get_log("browser")) >= 2


def test_filters(browser: Any, demo: Report, page: Path) -> None:
    open_page(browser, page)
    everything = {e.get_attribute("id") for e in shown(browser, "article.rule")}
    assert everything == demo.codes()
    shown(browser, "#filter input[value=warning]")[0].click()
    assert {e.get_attribute("id") for e in shown(browser, "article.rule")} == {"ADV005", "SEQ006"}
    assert shown(browser, "#filter output")[0].text.startswith(f"2 of {len(everything)} rules")
    shown(browser, "#filter input[value='']")[0].click()
    text = shown(browser, "#filter input[type=search]")[0]
    text.send_keys("NOT the recorded TOKEN")
    assert [e.get_attribute("id") for e in shown(browser, "article.rule")] == ["SEQ003"]
    assert len(shown(browser, "article.datum")) == 1
    text.send_keys(" nowhere")
    assert shown(browser, "article.rule") == []
    assert shown(browser, "#nothing")
    text.send_keys(Keys.CONTROL, "a")
    text.send_keys(Keys.DELETE)
    assert {e.get_attribute("id") for e in shown(browser, "article.rule")} == everything
    shown(browser, "#filter select")[0].find_elements(By.TAG_NAME, "option")[2].click()
    files = {violation.location.file for violation in demo}
    second = next(file for file in files if file is not None and file.endswith("second.jsonl"))
    wanted = {violation.code for violation in demo if violation.location.file == second}
    assert {e.get_attribute("id") for e in shown(browser, "article.rule")} == wanted
    assert all("second.jsonl" in example.text for example in shown(browser, ".example"))
    assert len(shown(browser, "article.datum")) == 4


def test_a_link_leads_to_the_datum_also_past_a_filter(browser: Any, page: Path) -> None:
    open_page(browser, page)
    link = shown(browser, "#SES002 .example a")[0]
    anchor = link.get_attribute("href").partition("#")[2]
    assert not shown(browser, f"#{anchor} table")
    link.click()
    assert shown(browser, f"#{anchor} table.map")
    shown(browser, "#filter input[value=warning]")[0].click()
    assert not shown(browser, f"#{anchor}")
    browser.execute_script("location.hash = 'SES002'")
    assert shown(browser, "#SES002")


def test_a_fault_at_the_end_of_a_datum_is_scrolled_to(browser: Any, page: Path) -> None:
    open_page(browser, page)
    inside = browser.execute_script(
        "return [...document.querySelectorAll('details[open] .scroll')].map(region => {"
        " const fault = region.querySelector('td.fault, td.error, td.warning').getBoundingClientRect();"
        " const box = region.getBoundingClientRect();"
        " return fault.left >= box.left && fault.left < box.right })"
    )
    assert inside
    assert all(inside)


def test_the_keyboard_reaches_everything(browser: Any, page: Path) -> None:
    open_page(browser, page)
    reachable = browser.execute_script(
        "return [...document.querySelectorAll('a, input:not([type=radio]), input:checked, select, summary, "
        '[tabindex="0"]\')].filter(e => e.checkVisibility()).length'
    )
    seen = []
    for _ in range(reachable):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        last = browser.switch_to.active_element
        seen.append(last.text)
        assert last.tag_name in ("a", "input", "select", "summary", "div")
        assert color(browser, ":focus", "outline-style") == "solid"
    assert seen[0] == "Skip to what was found"
    assert last == shown(browser, "summary")[-1]
    last.send_keys(Keys.ENTER)
    assert last.find_element(By.XPATH, "..").get_attribute("open") is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_is_wider_than_the_window(
    browser: Any, page: Path, tmp_path: Path, scheme: str, width: int
) -> None:
    use_scheme(browser, scheme)
    for path in (page, write(hostile_report(tmp_path), tmp_path)):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        open_page(browser, path)
        assert overflow(browser) <= 0
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_scheme_is_the_reader_s(browser: Any, page: Path) -> None:
    open_page(browser, page)
    light = color(browser, "body", "background-color"), color(browser, "svg .bars_marks path", "fill")
    use_scheme(browser, "dark")
    dark = color(browser, "body", "background-color"), color(browser, "svg .bars_marks path", "fill")
    assert light[0] == "rgb(251, 251, 250)"
    assert dark[0] == "rgb(20, 23, 28)"
    assert light[1] != dark[1]


def test_without_scripts_everything_is_there(browser: Any, demo: Report, page: Path) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    open_page(browser, page)
    assert {e.get_attribute("id") for e in shown(browser, "article.rule")} == demo.codes()
    assert len(shown(browser, "article.datum")) == demo.datums
    assert not shown(browser, "#filter")
    assert shown(browser, "table.map td.error")


def test_hostile_texts_stay_text(browser: Any, tmp_path: Path) -> None:
    path = write(hostile_report(tmp_path), tmp_path)
    open_page(browser, path)
    assert browser.get_log("browser") == []
    assert requests_of(browser) == [path.as_uri()]
    assert browser.execute_script("return document.querySelectorAll('script').length") == 1
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    text = browser.find_element(By.TAG_NAME, "body").text
    for part in (
        HOSTILE[0],
        HOSTILE[1][:20],
        HOSTILE[2],
        "\\u202eevil\\u202c\\u2066",
        "nul\\x00esc\\x1b[31m",
    ):
        assert part in text
    assert not {"\u202e", "\u2066", "\x00", "\x1b"} & set(text)
    assert path.stat().st_size < 2_000_000


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder), AXE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install {AXE}: {done.stderr.strip()[-200:]}")
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        *((kind, scheme) for kind in ("demo", "hostile") for scheme in ("light", "dark")),
        ("valid", "light"),
        ("unobserved", "dark"),
        ("more", "light"),
        ("more", "dark"),
    ],
)
def test_axe_finds_nothing(
    browser: Any, axe: str, demo: Report, page: Path, tmp_path: Path, *, kind: str, scheme: str
) -> None:
    path = page
    if kind == "hostile":
        path = write(hostile_report(tmp_path), tmp_path)
    elif kind == "valid":
        path = write(check(MULTI, tmp_path), tmp_path)
    elif kind == "unobserved":
        path = write(replace(demo, observations=None), tmp_path)
    elif kind == "more":  # than is shown
        report = provenance.check([long_datum()] * 5, "importance_sampling", observe=True)
        path = write(report, tmp_path)
    use_scheme(browser, scheme)
    open_page(browser, path)
    browser.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    browser.execute_script(axe)
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert len(found["passes"]) > 20
    assert [(v["id"], v["impact"], v["nodes"][0]["html"]) for v in found["violations"]] == []
