"""Opens a built site in headless Chromium: ``python tools/look_at_site.py build/docs/html PICTURES``.

Needs ``selenium`` from the Python package index, and ``chromium`` with ``chromium-driver`` from apt. Each
page is opened wide and narrow, light and dark. The program prints errors of the browser, pictures that do
not load, pages wider than the window, and text that is hard to read against its background. Then it
searches for each public name. One picture of each view goes to PICTURES, to be looked at.
"""

import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from check_site import html_files, public_names
from selenium import webdriver
from selenium.webdriver.common.by import By

VIEWS = (
    ("wide", 1280, "light"),
    ("wide", 1280, "dark"),
    ("narrow", 390, "light"),
    ("narrow", 390, "dark"),
)
HEIGHT = 900
#: Least ratio of luminance between text and background: WCAG 2.1, 1.4.3 asks 3 of large text, 4.5 else.
LEAST_CONTRAST = 3

FAULTS = """
const found = [];
for (const image of document.images) {
  if (!image.complete || image.naturalWidth === 0) found.push('a picture does not load: ' + image.src);
}
const over = document.documentElement.scrollWidth - window.innerWidth;
if (over > 1) found.push('wider than the window by ' + over + ' pixels');
const channel = c => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const numbers = color => color.match(/[0-9.]+/g).map(Number);
const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const background = element => {
  for (let at = element; at !== null; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
const faint = new Map();
for (const element of document.querySelectorAll('article p, article li, article td, article code, article span')) {
  if (!element.checkVisibility() || element.closest('[aria-hidden=true], .katex, svg')) continue;
  if (![...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())) continue;
  const [text, behind] = [luminance(numbers(getComputedStyle(element).color)), luminance(background(element))];
  const ratio = (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
  const kind = element.tagName.toLowerCase() + '.' + element.className;
  if (ratio < arguments[0] && !faint.has(kind)) {
    faint.set(kind, ratio.toFixed(1) + ': ' + element.textContent.trim().slice(0, 30));
  }
}
for (const [kind, text] of faint) found.push('hard to read, ' + kind + ' ' + text);
return found;
"""


def serve(site: Path) -> str:
    """Serve the site until this process ends; return its address."""
    handler = partial(
        type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None}), directory=site
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def start_browser() -> Any:
    """Return a headless Chromium that reaches this machine alone."""
    options = webdriver.ChromeOptions()
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options)


def set_view(browser: Any, width: int, colors: str) -> None:
    size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": colors}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def faults_of(browser: Any, address: str, picture: Path) -> Iterator[str]:
    browser.get(address)
    time.sleep(0.1)
    picture.parent.mkdir(parents=True, exist_ok=True)
    browser.save_screenshot(str(picture))
    yield from browser.execute_script(FAULTS, LEAST_CONTRAST)
    for entry in browser.get_log("browser"):
        # The theme says this on the first page that a browser opens.
        if entry["level"] == "SEVERE" and "Got invalid theme mode" not in entry["message"]:
            yield f"the browser says: {entry['message']}"


def found_by_search(browser: Any, address: str, name: str) -> bool:
    """Whether a result of the search leads to the reference of a public name."""
    browser.get(f"{address}/search.html?q={name.rsplit('.', 1)[-1]}")
    for _ in range(50):
        links = browser.find_elements(By.CSS_SELECTOR, "#search-results a")
        if any(link.get_attribute("href").endswith(f"#{name}") for link in links):
            return True
        time.sleep(0.1)
    return False


def main(site: Path, pictures: Path) -> int:
    """Print what is wrong with the site; return 1 if anything is."""
    address, browser, faults = serve(site), start_browser(), 0
    pages = sorted(html_files(site))
    for view, width, colors in VIEWS:
        set_view(browser, width, colors)
        for page in pages:
            place = page.relative_to(site)
            picture = pictures / f"{view}-{colors}" / place.with_suffix(".png")
            for fault in faults_of(browser, f"{address}/{place}", picture):
                print(f"{place}, {view}, {colors}: {fault}", flush=True)
                faults += 1
    names = list(public_names())
    for name in names:
        if not found_by_search(browser, address, name):
            print(f"search does not find {name}", flush=True)
            faults += 1
    browser.quit()
    print(
        f"{len(pages)} pages in {len(VIEWS)} views, {len(names)} names searched for: {faults} faults"
    )
    return int(faults != 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
