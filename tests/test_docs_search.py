"""The documentation's search works from disk, and asks for nothing elsewhere."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.report.test_browser import CHROMIUM, DRIVER, browser  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """Two pages under the project's own settings: the whole documentation takes `make docs` half a minute."""
    yaml = pytest.importorskip("yaml", reason="mkdocs is not installed")
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("docs")
    pages = folder / "pages"
    (pages / "inside").mkdir(parents=True)
    (pages / "index.md").write_text("# First\n\nNothing to find.\n")
    (pages / "inside" / "second.md").write_text("# Second\n\nThe hippopotamus has a large leverage.\n")
    shutil.copy(ROOT / "docs" / "search_worker.js", pages)
    settings = (ROOT / "mkdocs.yml").read_text()
    plugins = yaml.safe_load(settings)["plugins"]
    assert "offline" in plugins and "search" in plugins
    text = settings.split("nav:")[0].replace("docs_dir: docs", f"docs_dir: {pages}")
    text = text.replace("docs/mathml_hook.py, docs/public_names_hook.py, docs/", f"{ROOT}/docs/")
    text = text.split("  - mkdocstrings:")[0] + "markdown_extensions: []\n"
    (folder / "mkdocs.yml").write_text(text)
    build(load_config(str(folder / "mkdocs.yml"), site_dir=str(folder / "site")))
    return folder / "site"


def test_no_page_names_another_host(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert "unpkg" not in text and 'script src="http' not in text
    assert (site / "search_worker.js").exists() and (site / "search" / "search_index.js").exists()


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium here: install Debian's chromium and chromium-driver")
@pytest.mark.parametrize("page", ["index.html", "inside/second.html"])
def test_a_word_is_found_from_disk(site, browser, page):  # noqa: F811
    from selenium.webdriver.common.by import By

    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.set_window_size(1300, 900)
    browser.get((site / page).as_uri())
    box = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    box.click()
    box.send_keys("hippopotamus")
    links: list = []
    until = time.monotonic() + 60
    while not links and time.monotonic() < until:
        time.sleep(0.1)
        # read at one moment: the list is made anew with every letter
        links = browser.execute_script(
            "return [...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        )
    assert links[0].split("/")[-1].split("?")[0] == "second.html"
    assert browser.get_log("browser") == []
