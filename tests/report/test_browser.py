"""The page in a real browser: nothing blocked or cut off, readable in light and dark, on paper and by keyboard."""

from __future__ import annotations

import base64
import shutil

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no chromium here: install Debian's chromium and chromium-driver"
)

CONTRAST = """
const lum = c => { const v = c.map(x => { x /= 255; return x <= .03928 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4 });
  return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
const rgb = s => s.match(/[0-9.]+/g).map(Number);
const ground = e => { while (e) { const c = rgb(getComputedStyle(e).backgroundColor);
  if (c.length < 4 || c[3] > 0) return c.slice(0, 3); e = e.parentElement } return [255, 255, 255] };
let worst = 99;
for (const e of document.querySelectorAll('p,li,span,td,th,h1,h2,dt,dd,figcaption,caption,strong,svg text')) {
  if (!e.textContent.trim()) continue;
  const svg = e.namespaceURI.endsWith('svg');
  const ink = rgb(getComputedStyle(e)[svg ? 'fill' : 'color']).slice(0, 3);
  const a = lum(ink), b = lum(ground(svg ? e.closest('figure') : e));
  worst = Math.min(worst, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
}
return worst;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


def open_page(browser, page, width: int = 1200, scheme: str = "light") -> None:
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    browser.get(page.as_uri())


def test_nothing_is_blocked_or_missing(browser, page):
    open_page(browser, page)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return getComputedStyle(document.querySelector('.band')).backgroundColor") == (
        "rgb(163, 23, 42)"
    )
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('svg')].map(s => [s.getBoundingClientRect().width, s.getBBox().height])"
    )
    assert len(sizes) == 5 and all(w > 200 and h > 100 for w, h in sizes)


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_sticks_out(browser, page, width):
    open_page(browser, page, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    cut = browser.execute_script(
        """return [...document.querySelectorAll('svg')].flatMap(s => { const b = s.getBoundingClientRect();
        return [...s.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
        return r.left < b.left - 1 || r.right > b.right + 1 || r.bottom > b.bottom + 1 || r.top < b.top - 1 })
        .map(t => t.textContent) })"""
    )
    assert cut == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_is_enough_in_light_and_dark(browser, page, scheme):
    open_page(browser, page, scheme=scheme)
    assert browser.execute_script(CONTRAST) >= 4.5


def test_the_keyboard_gets_everywhere(browser, page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    open_page(browser, page)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.execute_script("return document.activeElement.className") == "skip"
    assert browser.execute_script("return document.activeElement.getBoundingClientRect().left") >= 0


def test_every_figure_has_a_name_and_a_description(browser, page):
    open_page(browser, page)
    named = browser.execute_script(
        """return [...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-labelledby').split(' ')
        .every(id => document.getElementById(id) && document.getElementById(id).textContent.length > 5))"""
    )
    assert named


def test_it_prints_on_a4(browser, page, tmp_path):
    open_page(browser, page)
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
    assert pdf.startswith(b"%PDF") and b"/MediaBox [0 0 594" in pdf.replace(b"595", b"594")
    assert 3 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") <= 14
