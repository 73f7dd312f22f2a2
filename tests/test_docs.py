"""The documentation: every block of code prints what its page says, and the site stands."""

import html.parser
import os
import re
import shutil
import subprocess
import sys
import zlib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import kuq
from docs import pages

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = pages.pages()
HAS_TORCH = find_spec("torch") is not None
#: What code on a page says where it trains or reads networks.
NEEDS_TORCH = re.compile(r"kuq\.nn\b|kuq import nn|^import torch|^kuq demo", flags=re.MULTILINE)


def name_of(page):
    return str(page.relative_to(pages.ROOT))


# --- code ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_code_prints_what_the_page_says(page, tmp_path, monkeypatch):
    if not HAS_TORCH and NEEDS_TORCH.search(page.read_text(encoding="utf-8")):
        pytest.skip("needs PyTorch")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUQ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    try:
        for block, printed in pages.run(page):
            if block.output is not None:
                assert printed == block.output, f"{name_of(page)}, line {block.line}"
    finally:
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_are_of_known_kinds(page):
    kinds = re.findall(r"^```([^\n{]+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(kinds) <= set(pages.KINDS)
    assert page.read_text(encoding="utf-8").count("\n```") % 2 == 0


def test_every_correction_has_a_check():
    text = (pages.ROOT / "docs" / "theory" / "corrections.md").read_text(encoding="utf-8")
    sections = re.split(r"^### (\d+)\. ", text, flags=re.MULTILINE)[1:]
    assert [int(number) for number in sections[::2]] == list(range(1, 27))
    for number, section in zip(sections[::2], sections[1::2], strict=True):
        assert "```python" in section, number
        assert "```text" in section, number


def test_commands_of_make_and_extras_exist():
    makefile, project = (
        (pages.ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "pyproject.toml")
    )
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"^make (\w+)", text, flags=re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), (page, target)
        for extras in re.findall(r'pip install "(?:\.|kuq)\[([\w,]+)\]"', text):
            for extra in extras.split(","):
                assert re.search(rf"^{extra} = ", project, flags=re.MULTILINE), (page, extra)


def test_a_wrong_command_is_noticed():
    for line in (
        ["kuq-study", "run", "--preset"],
        ["kuq", "decompose", "missing.npz"],
        ["kuq", "nope"],
    ):
        with pytest.raises((RuntimeError, SystemExit)):
            pages.execute(line)


def test_long_commands_are_read_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pages.execute(["kuq-study", "run", "experiments/none.toml", "--preset", "paper"])
    with pytest.raises(SystemExit):
        pages.execute(["kuq-study", "run", "experiments/none.toml", "--preset", "paper", "--wrong"])
    assert not list(tmp_path.iterdir())


# --- site ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not HAS_TORCH, reason="the reference is made of all that can be imported")
def test_site(tmp_path):
    """One test, since each step needs the site, which takes its time to build."""
    build(tmp_path / "site")
    site = {path: Reader.of(path) for path in (tmp_path / "site").rglob("*.html")}
    assert len(site) > len(PAGES)
    check_names(inventory(tmp_path / "site" / "objects.inv"))
    check_reference(tmp_path / "site" / "api")
    check_links(site)
    check_nothing_is_fetched(tmp_path / "site", site)
    if CHROMIUM:
        check_in_a_browser(tmp_path / "site")


def build(folder):
    options = ["-W", "--keep-going", "-q", "-b", "html", "-d", f"{folder}.trees"]
    command = [sys.executable, "-m", "sphinx", *options, str(pages.ROOT / "docs"), str(folder)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


def inventory(path):
    """The names that the site documents."""
    compressed = path.read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(compressed).decode().splitlines()
    return {line.split(" ")[0] for line in lines}


def public_names():
    yield from (f"kuq.{name}" for name in kuq.__all__)
    for part in ("adapters", *kuq._PARTS):
        yield from (f"kuq.{part}.{name}" for name in import_module(f"kuq.{part}").__all__)
    yield from (f"kuq_study.{name}" for name in import_module("kuq_study").__all__)


def check_names(documented):
    known = documented | {"kuq.adapters.as_distribution"}  # documented as kuq.as_distribution
    assert not set(public_names()) - known


def check_reference(folder):
    """Signatures have types that people read, and values of constants; parameters are listed."""
    signatures, text = [], ""
    for path in sorted(folder.glob("*.html")):
        page = path.read_text(encoding="utf-8")
        signatures += map(plain, re.findall(r'<dt class="sig.*?</dt>', page, flags=re.DOTALL))
        if path.stem == "decomposition":
            start, end = page.index('id="kuq.decompose"'), page.index('id="kuq.Uncertainty"')
            text = plain(page[start:end])
    odd = [line for line in signatures if re.search(r"ForwardRef|[~<]|= [A-Z]{3,}", line)]
    assert len(signatures) > 200
    assert not odd, odd
    assert "unbiased: bool | str = True" in text
    assert "max_memory: float = 268435456" in text
    assert "Parameters: prediction is an Ensemble" in text


def plain(markup):
    return html.unescape(" ".join(re.sub(r"<[^>]+>", "", markup).split()))


class Reader(html.parser.HTMLParser):
    """The anchors, links and loaded resources of a page."""

    def __init__(self):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []

    @classmethod
    def of(cls, path):
        reader = cls()
        reader.feed(path.read_text(encoding="utf-8"))
        return reader

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[key] for key in ("id", "name") if found.get(key))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(found["href"])
        elif tag in ("img", "script", "iframe", "source") and found.get("src"):
            self.loaded.append(found["src"])


def check_links(site):
    for page, reader in site.items():
        for link in reader.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.exists(), f"{page.name}: {link}"
            anchor = unquote(parts.fragment)
            if anchor and target.suffix == ".html":
                assert anchor in site[target].anchors, f"{page.name}: {link}"


def check_nothing_is_fetched(folder, site):
    for page, reader in site.items():
        for address in reader.loaded:
            parts = urlsplit(address)
            if parts.scheme == "data":
                continue
            assert not parts.scheme + parts.netloc, f"{page.name} loads {address}"
            assert (page.parent / unquote(parts.path)).exists(), f"{page.name}: {address}"
    for sheet in folder.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", text), sheet.name


#: Of each block: pixels to be scrolled for, wrapped lines, its kind, whether a table, its text.
CODE_SIZES = """() => [...document.querySelectorAll(".highlight pre")].map(block => {
    const style = getComputedStyle(block), pixels = name => parseFloat(style[name]);
    const height = block.clientHeight - pixels("paddingTop") - pixels("paddingBottom");
    const shown = Math.round(height / pixels("lineHeight"));
    const lines = block.textContent.trimEnd().split("\\n").length;
    const outer = block.closest("[class*=highlight-]");
    return [block.scrollWidth - block.clientWidth, shown - lines, outer.className,
            outer.style.getPropertyValue("--columns") !== "", block.textContent];
})"""


def check_code_fits(page, name, width):
    """Nothing has to be scrolled for; tables stay whole, and with room all but sentences do."""
    for hidden, wrapped, kind, is_table, text in page.evaluate(CODE_SIZES):
        assert hidden <= 0, f"{name}: {hidden} pixels are hidden at {width}:\n{text}"
        if is_table or (width >= 1400 and "highlight-text" not in kind):
            assert wrapped == 0, f"{name}: {wrapped} lines are wrapped at {width}:\n{text}"


def check_in_a_browser(folder):
    from playwright.sync_api import sync_playwright

    complaints = []
    every = sorted(folder.rglob("*.html"))
    some = [folder / name for name in ("index.html", "theory/symbols.html", "benchmarks.html")]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        sizes = ((400, "dark", every), (1400, "light", every), (1600, "light", some))
        for width, theme, shown in sizes:
            context = browser.new_context(
                viewport={"width": width, "height": 900}, color_scheme=theme
            )
            page = context.new_page()
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("request", lambda request: complaints.extend(outside(request.url)))
            for path in shown:
                page.goto(path.as_uri())
                wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                assert wide <= 0, f"{path.name} is {wide} pixels wider than {width}"
                check_code_fits(page, path.name, width)
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (min(map(int, re.findall(r"\d+", colour)[:3])) > 128) is (theme == "light")
            context.close()
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.goto((folder / "search.html").as_uri() + "?q=median_bandwidth")
        page.wait_for_selector("ul.search li a")
        found = page.eval_on_selector_all("ul.search li a", "links => links.map(a => a.href)")
        browser.close()
    assert any("api/scores.html" in link for link in found), found
    assert not complaints, complaints


def outside(address):
    return [] if address.startswith(("file:", "data:", "blob:")) else [address]


def test_every_drawing_is_shown():
    shown = set()
    for page in Path(pages.ROOT / "docs").rglob("*.md"):
        shown |= set(re.findall(r"\{drawing\} ([\w-]+)", page.read_text(encoding="utf-8")))
    assert shown == {path.stem for path in (pages.ROOT / "docs" / "figures").glob("*.svg")}
