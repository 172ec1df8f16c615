"""The built site: complete, whole in itself, and free of broken links."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click
import pytest

import losses
import provenance
from provenance.cli import commands
from provenance.rules import registry

pytest.importorskip("material")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
#: What the copy button of the second block takes.
COPIED = """
const block = document.querySelectorAll(".highlight code")[1];
block.setAttribute("data-md-copying", "");
return block.innerText.trimEnd();
"""


class Page(HTMLParser):
    """What a page links to, loads, and can be linked at."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("next", "prev", "canonical"):
            self.loads.append(given.get("href", ""))
        elif tag in ("script", "img", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_rule_has_a_page_with_all_its_examples(site: Path) -> None:
    index = (site / "rules" / "index.html.md").read_text(encoding="utf-8")
    for code, rule in registry().items():
        text = (site / "rules" / f"{code}.html.md").read_text(encoding="utf-8")
        assert text.startswith(f"# {code} {rule.name}\n")
        assert rule.summary in text
        assert text.count(' title="bad"') == len(rule.bad)
        assert len(re.findall(rf"^-> .*{code} {rule.name}: ", text, re.MULTILINE)) >= len(rule.bad)
        assert f"| [{code}]({code}.html.md) | {rule.name} |" in index


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    anchors = {anchor for path in (site / "reference").glob("*.html") for anchor in Page(path).anchors}
    names = {f"provenance.{name}" for name in provenance.__all__ if name != "__version__"}
    names |= {f"losses.{name}" for name in losses.__all__}
    names |= {"losses.stable_reinforce.stable_reinforce", "losses.token_logprobs.token_logprobs"}
    assert names <= anchors
    assert "provenance.Contract.with_severity" in anchors
    assert "<code>provenance.__version__</code>" in (site / "reference" / "index.html").read_text("utf-8")


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "commands.html.md").read_text(encoding="utf-8")
    found = list(paths_of(click.Context(commands, info_name="provenance", **commands.context_settings)))
    assert "provenance ledger prune" in {context.command_path for context in found}
    for context in found:
        section = text.partition(f"## {context.command_path}\n")[2].partition("\n## ")[0]
        assert section
        for option in context.command.get_params(context):
            if isinstance(option, click.Option) and not option.hidden:
                assert all(f"`{name}" in section for name in option.opts), (context.command_path, option.opts)


def paths_of(context: click.Context) -> Iterator[click.Context]:
    group = context.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner
        if isinstance(command, click.Group):
            yield from paths_of(inner)


def test_links_lead_somewhere_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    found = pages(site)
    assert len(found) > 80
    broken = []
    for path, page in found.items():
        assert not [url for url in page.loads if urlsplit(url).netloc], path
        if path.name == "404.html":
            continue  # its links are from the root of the server
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists() or (
                parts.fragment and target in found and unquote(parts.fragment) not in found[target].anchors
            ):
                broken.append((path.relative_to(site).as_posix(), link))
    assert broken == []


def test_llms_txt_names_every_page_and_links_lead_somewhere(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    title, blank, summary = text.split("\n")[:3]
    assert (title, blank, summary[:2]) == ("# datum-provenance", "", "> ")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)(?:: .+)?$", text, re.MULTILINE)
    assert len(listed) == text.count("\n- ")
    assert {site / each for each in listed} == {
        path.with_name(f"{path.name}.md") for path in site.rglob("*.html") if path.name != "404.html"
    }
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert " at 0x" not in whole
    for each in listed:
        page = (site / each).read_text(encoding="utf-8")
        assert page.strip() in whole
        assert "\n::: " not in page
        for link in re.findall(r"\]\(([\w./-]+\.md)[)#]", page):
            assert (site / each).parent.joinpath(link).resolve().exists(), (each, link)


def test_nothing_of_this_machine_is_in_it(site: Path) -> None:
    for path in site.rglob("*"):
        if path.suffix in (".html", ".txt", ".md", ".json", ".xml"):
            assert str(ROOT) not in path.read_text(encoding="utf-8"), path


def test_pages_work_from_a_disk_in_a_browser(site: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip("no chromium")
    options = webdriver.ChromeOptions()
    options.binary_location = str(chromium)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService("/usr/bin/chromedriver")
    with webdriver.Chrome(options=options, service=service) as browser:
        for width in (390, 1280):
            size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 500}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for name in ("index", "tutorial", "rules/index", "rules/SEQ003", "reference/checking"):
                browser.get((site / f"{name}.html").as_uri())
                assert browser.execute_script("return document.documentElement.scrollWidth") <= width, name
        browser.get((site / "tutorial.html").as_uri())
        assert browser.execute_script(COPIED) == "provenance demo"
        field = browser.find_element("css selector", "input.md-search__input")
        browser.execute_script("arguments[0].focus()", field)
        field.send_keys("SEQ003")
        from selenium.webdriver.support.wait import WebDriverWait

        first = ".md-search-result__article h1"
        WebDriverWait(browser, 30).until(lambda each: each.find_elements("css selector", first))
        assert browser.find_element("css selector", first).text == "SEQ003 input-token-mismatch"
        assert browser.get_log("browser") == []
        messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_figures_of_other_tools_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = (ROOT / "docs" / "alternatives.md").read_text(encoding="utf-8").partition("## Measured")[2]
    figures = r"([\d.]+x) \| (\S+|not measured) \| (\d+)"
    shown = re.findall(rf"^\| ([\w ]+?)(?:, per datum)? \| {figures} \|", table, re.MULTILINE)
    assert len(shown) == 5
    for tool, processor, memory, rules in shown:
        name = tool.removeprefix("official ")
        (line,) = re.findall(rf"^\| {name} / check.*$", measured, re.MULTILINE)
        cells = [cell.strip() for cell in line.split("|")[2:-1]]
        expected = [processor, "" if memory == "not measured" else memory, rules]
        assert [cells[0], cells[2], cells[3]] == expected, tool
