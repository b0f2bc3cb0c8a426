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


CUT_OFF = """return [...document.querySelectorAll('svg')].flatMap(s => { const b = s.getBoundingClientRect();
return [...s.querySelectorAll('text')].filter(t => { const r = t.getBoundingClientRect();
return r.left < b.left - 1 || r.right > b.right + 1 || r.bottom > b.bottom + 1 || r.top < b.top - 1 })
.map(t => t.textContent) })"""


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
    assert browser.execute_script(
        """return [...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-labelledby').split(' ')
        .every(id => document.getElementById(id) && document.getElementById(id).textContent.length > 5))"""
    )  # every figure has a name and a description


def test_the_keyboard_gets_everywhere(browser, page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    open_page(browser, page)
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.TAB)
    assert browser.execute_script("return document.activeElement.className") == "skip"
    assert browser.execute_script("return document.activeElement.getBoundingClientRect().left") >= 0


@pytest.fixture(scope="module")
def crowded(tmp_path_factory):
    """A page with much to say: neighbours close together, many groups, long names, wide tables."""
    import numpy as np
    import pandas as pd

    import perinstance as pi

    rng = np.random.default_rng(2)
    n = 600
    X = pd.DataFrame(rng.normal(size=(n, 4)), columns=["age", "body mass index", "length of stay", "dose"])
    X["rare drug"] = (np.arange(n) < 9) * 1.0
    y = X.sum(axis=1) + rng.normal(size=n)
    y.iloc[:9] += 4.0 + 0.01 * np.arange(9)
    audit = pi.audit(pi.PosteriorSample(alpha=1.0, gamma=3.0), X, y, ids=[f"person-{i:06d}" for i in range(n)])
    top = float(audit.losses.max())
    path = tmp_path_factory.mktemp("crowded") / "report.html"
    audit.to_html(
        path,
        groups={"ward": [f"ward of the long corridor {i % 57}" for i in range(n)], "sex": ["f", "m"] * (n // 2)},
        dp=top * 1.05,
        everyone=top * 1.01,
        rare_features=audit.rare_features(X, y),
        beyond=audit.rows_beyond(1.0, 1.0, X, y),
        rechecks=audit.recheck(X, y),
        source="a file with a long name for a hospital's table of patients.csv",
        target="cost of treatment",
        unit="k€",
    )
    return path


OVERLAPS = """return [...document.querySelectorAll('svg')].flatMap(s => {
const boxes = [...s.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
const found = [];
for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) { const a = boxes[i][1], b = boxes[j][1];
  const dx = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const dy = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (dx > 1 && dy > 3) found.push(boxes[i][0] + ' / ' + boxes[j][0]) }
return found })"""


@pytest.mark.parametrize("width", [360, 768, 1200])
def test_nothing_sticks_out_and_no_two_labels_of_a_figure_collide(browser, crowded, width):
    open_page(browser, crowded, width)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(OVERLAPS) == []
    assert browser.execute_script(CUT_OFF) == []


def test_no_number_covers_the_dot_of_another_person(browser, crowded):
    open_page(browser, crowded)
    covered = browser.execute_script(
        """const s = document.querySelector('[aria-labelledby^="plane"]');
        const box = e => e.getBoundingClientRect(), numbers = [...s.querySelectorAll('text.note')];
        const dots = [...s.querySelectorAll('circle.dot')].map(box);
        return [numbers.filter(t => /^[0-9]+$/.test(t.textContent)).length, numbers.filter(t => dots.some(d =>
          Math.min(d.right, box(t).right) - Math.max(d.left, box(t).left) > 1 &&
          Math.min(d.bottom, box(t).bottom) - Math.max(d.top, box(t).top) > 4)).map(t => t.textContent)]"""
    )
    assert covered == [10, []]


def test_no_line_of_a_worst_case_crosses_a_name(browser, crowded):
    open_page(browser, crowded)
    crossed = browser.execute_script(
        """const s = document.querySelector('[aria-labelledby^="distribution"]');
        const box = e => e.getBoundingClientRect(), lines = [...s.querySelectorAll('line.marker')].map(box);
        return [...s.querySelectorAll('text.note')].filter(t => lines.some(l =>
          l.left < box(t).right && l.right > box(t).left && l.top < box(t).bottom && l.bottom > box(t).top))
          .map(t => t.textContent)"""
    )
    assert crossed == []


def test_a_phone_shows_why(browser, crowded):
    open_page(browser, crowded, 390)
    ends = browser.execute_script(
        """return [...document.querySelectorAll('.people td')].map(c => [c.dataset.label,
        c.getBoundingClientRect().left, c.getBoundingClientRect().right])"""
    )
    assert {"Why", "Rare features", "Kind"} <= {label for label, *_ in ends}
    assert all(left >= 0 and right <= 390 for _, left, right in ends)


def test_figures_fit_a_narrow_screen_and_are_read_there(browser, crowded):
    open_page(browser, crowded, 360)
    figures = browser.execute_script(
        """return [...document.querySelectorAll('svg')].map(s => { const b = s.getBoundingClientRect();
        const t = s.querySelector('text').getBoundingClientRect(); return [b.left, b.right, t.height,
        s.parentElement.scrollWidth - s.parentElement.clientWidth] })"""
    )
    assert len(figures) == 6
    for left, right, text_height, scrolled in figures:
        assert left >= 0 and right <= 360 and scrolled <= 1
        assert text_height >= 10  # pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lines_and_legends_stand_out_from_the_ground(browser, crowded, scheme):
    """Legends and curves have the same colour, and 3 to 1 against the page, as graphics must."""
    open_page(browser, crowded, scheme=scheme)
    worst = browser.execute_script(
        """const lum = c => { const v = c.map(x => { x /= 255; return x <= .03928 ? x / 12.92
          : ((x + .055) / 1.055) ** 2.4 }); return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] };
        const rgb = s => s.match(/[0-9.]+/g).map(Number).slice(0, 3);
        const ground = lum(rgb(getComputedStyle(document.documentElement).backgroundColor));
        let worst = [99, ''];
        for (const e of document.querySelectorAll('svg .curve, svg .marker, svg .dot, svg .bar, svg .axis')) {
          if (e.classList.contains('small')) continue;
          const style = getComputedStyle(e), paint = style.fill === 'none' || e.tagName === 'line' ? style.stroke
            : style.fill;
          const a = lum(rgb(paint)), r = (Math.max(a, ground) + .05) / (Math.min(a, ground) + .05);
          if (r < worst[0]) worst = [r, e.getAttribute('class')] }
        return worst"""
    )
    assert worst[0] >= 3, worst
    assert browser.execute_script(CONTRAST) >= 4.5


@pytest.mark.parametrize(("paper", "size"), [("A4", (8.27, 11.69)), ("Letter", (8.5, 11.0))])
def test_the_printed_page_loses_no_column(browser, crowded, paper, size):
    """Every word of every table is on the paper, between its margins."""
    import io

    from pypdf import PdfReader

    open_page(browser, crowded)
    printing = {"paperWidth": size[0], "paperHeight": size[1], "preferCSSPageSize": True}
    data = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", printing)["data"])
    reader = PdfReader(io.BytesIO(data))
    printed: list[str] = []
    for page in reader.pages:
        width, height = (float(v) for v in (page.mediabox.width, page.mediabox.height))
        assert (width, height) == pytest.approx((72 * size[0], 72 * size[1]), abs=2)

        def place(text, cm, tm, font, points, width=width):
            if text.strip():
                x = cm[0] * tm[4] + cm[2] * tm[5] + cm[4]
                assert 0 <= x <= width - 20, text
                printed.append(text)

        page.extract_text(visitor_text=place)
    found = "".join("".join(printed).split())
    cells = browser.execute_script("return [...document.querySelectorAll('th, td')].map(c => c.textContent)")
    assert len(cells) > 300
    for word in {word for cell in cells for word in cell.split()}:
        assert word in found, word
    kinds = sum(cell == "exact" for cell in cells)
    assert "".join(printed).count("exact") >= kinds + 1


@pytest.fixture(scope="module")
def ledger_page(tmp_path_factory):
    """The page of a ledger with many releases, long names and a person far above the others."""
    import numpy as np

    import perinstance as pi
    from perinstance.pairs import GaussianShift

    folder = tmp_path_factory.mktemp("ledger")
    ledger = pi.Ledger(folder / "ledger")
    rng = np.random.default_rng(1)
    ids = [f"person-{i:06d}" for i in range(300)]
    for k in range(23):
        losses = rng.uniform(0.01, 0.2, 300)
        losses[3] = 2.0
        key = f"{2004 + k} model of the length of stay, second revision"
        ledger.charge_pairs(
            ids, GaussianShift(losses), key=key, mechanism="Ridge, alpha = 1, plus Gaussian noise of scale 5"
        )
    ledger.report(folder / "full.html", limit=30.0)
    ledger.report(folder / "redacted.html", limit=30.0, redact=True)
    return folder


@pytest.mark.parametrize("name", ["full.html", "redacted.html"])
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1200, "dark")])
def test_the_page_of_a_ledger_is_read_like_a_report(browser, ledger_page, name, width, scheme):
    open_page(browser, ledger_page / name, width, scheme)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    assert browser.execute_script(CUT_OFF) == []
    assert browser.execute_script(OVERLAPS) == []
    assert browser.execute_script(CONTRAST) >= 4.5
