"""Checks a built documentation site: ``python tools/check_site.py build/docs/html``.

Every link within the site leads to a page and a place on it. No page loads a script, a style, a
picture or a font from a network. Every public name is in the inventory, so that search finds it.
"""

import importlib
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

PUBLIC = (
    "penstock",
    "penstock.scvi",
    "penstock.executors",
    "penstock.lightning:DataModule",
    "penstock.compat.census",
    "penstock.compat.census.pp:highly_variable_genes,get_highly_variable_genes",
    "penstock.compat.tiledbsoma_ml",
)
#: Elements that a browser loads by itself, and the attribute with the address.
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """Links, loaded files and places of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.places |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if (attribute := LOADED.get(tag)) and attribute in given:
            self.loaded.append(given[attribute])


def html_files(site: Path) -> list[Path]:
    """Return the pages. `_static` has templates of the theme, which are none."""
    return [path for path in site.rglob("*.html") if site / "_static" not in path.parents]


def broken_links(site: Path) -> Iterator[str]:
    """Yield a message for each link or loaded file that leads nowhere."""
    pages = {path.resolve(): Page(path.read_text()) for path in html_files(site)}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for link in (*page.links, *page.loaded):
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            file = (path.parent / unquote(target.path)).resolve() if target.path else path
            if file.is_dir():
                file /= "index.html"
            if not file.is_file():
                yield f"{name}: no file for the link {link}"
            elif target.fragment and not has_place(pages.get(file), unquote(target.fragment)):
                yield f"{name}: no such place: {link}"


def has_place(page: Page | None, place: str) -> bool:
    """Return whether a page has a place; of other files nothing is known."""
    return page is None or place in page.places


def loaded_from_network(site: Path) -> Iterator[str]:
    """Yield a message for each file that a page or a style loads from a network."""
    for path in html_files(site):
        for address in Page(path.read_text()).loaded:
            if urlsplit(address).netloc:
                yield f"{path.relative_to(site)}: loads {address}"
    for path in site.rglob("*.css"):
        for address in re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text()
        ):
            yield f"{path.relative_to(site)}: loads {address}"


def inventory(site: Path) -> set[str]:
    """Return the names of Python objects in objects.inv."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    lines = zlib.decompress(packed).decode().splitlines()
    return {line.split()[0] for line in lines if line.split()[1].startswith("py:")}


def public_names(modules: Iterable[str] = PUBLIC) -> Iterator[str]:
    """Yield the full names that the modules make public: of ``__all__``, or after a colon."""
    for entry in modules:
        module, _, names = entry.partition(":")
        for name in names.split(",") if names else importlib.import_module(module).__all__:
            yield f"{module}.{name}"


def main(site: Path) -> int:
    """Print the findings; return 1 if there are any."""
    found = [*broken_links(site), *loaded_from_network(site)]
    known = inventory(site)
    found += [f"{name}: not in the API reference" for name in public_names() if name not in known]
    print("\n".join(sorted(set(found))), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
