"""Settings of the documentation site; ``make docs`` builds it.

The source folder is the whole repository, so that a link between two pages is the same in the
repository and on the site. `include_patterns` names the pages.
"""

import importlib
import inspect
import re

import penstock
from docutils import nodes
from sphinx import addnodes
from sphinx.util.docutils import SphinxRole

PUBLIC_MODULES = ("scvi", "executors", "lightning", "compat", "census", "pp", "tiledbsoma_ml")

project = "Penstock"
author = "the Penstock developers"
copyright = "the Penstock developers, Apache-2.0"
version = release = penstock.__version__

root_doc = "docs/index"
include_patterns = [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "src/README.md",
    "docs/**",
    "benchmarks/*.md",
    "benchmarks/results/*.md",
]
exclude_patterns = [
    "**/.*",
    "build*",
    "demo_output",
    "dist",
    "python",
    "tests",
    "bindings",
    "cmake",
    "tools",
    "include",
    "**/__pycache__",
]

extensions = [
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]

# --- pages

myst_enable_extensions = ["colon_fence", "attrs_inline"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # outputs are those that are committed
nb_ipywidgets_js = {}  # no scripts from a network
nb_merge_streams = True
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
suppress_warnings = ["mystnb.unknown_mime_type", "myst.header"]

# --- reference

default_role = "public-name"
autosummary_generate = False
autodoc_typehints = "none"  # the docstrings have types
autodoc_member_order = "groupwise"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"
add_module_names = False

# --- looks

html_theme = "sphinx_book_theme"
html_title = "Penstock"
html_static_path = ["_static"]
html_css_files = ["penstock.css"]
html_favicon = "_static/favicon.svg"
html_extra_path = ["_root"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "home_page_in_toc": False,
    "navbar_persistent": [],
    "navigation_with_keys": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
}


# --- names


def public_name(text, module):
    """Return the full name of a public object that `text` names, or None."""
    for name in (text, f"{module}.{text}", f"penstock.{text}"):
        top, *parts = name.split(".")
        thing = penstock if top == "penstock" else None
        for part in parts:
            if inspect.ismodule(thing) and part in getattr(thing, "__all__", ()):
                thing = getattr(thing, part)
            elif inspect.ismodule(thing) and part in PUBLIC_MODULES:
                thing = importlib.import_module(f"{thing.__name__}.{part}")
            else:
                thing = getattr(thing, part, None) if inspect.isclass(thing) else None
        if parts and thing is not None:
            return name
    return None


class InBackticks(SphinxRole):
    """A link to the public object of a name; other names, such as arguments, are code."""

    def run(self):
        if name := public_name(self.text, self.env.ref_context.get("py:module")):
            role = self.env.get_domain("py").role("obj")
            return role("obj", self.rawtext, f"{self.text} <{name}>", self.lineno, self.inliner)
        return [nodes.literal(self.rawtext, self.text)], []


def link_types(app, doctree):
    """In types of arguments, link public names alone: other words are prose."""
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("reftype") == "class" and node.get("refspecific"):
            if name := public_name(node["reftarget"], node.get("py:module")):
                node["reftarget"], node["refspecific"] = name, False
            else:
                node.replace_self(addnodes.literal_emphasis("", node["reftarget"]))


def keep_underscores(app, what, name, obj, options, lines):
    """A name that ends in an underscore is no reference of reStructuredText."""
    lines[:] = [re.sub(r"^(:(?:ivar|vartype) \w+)_:", r"\1\\_:", line) for line in lines]


def setup(app):
    app.connect("autodoc-process-docstring", keep_underscores, priority=1000)  # after napoleon
    app.add_role("public-name", InBackticks())
    app.connect("doctree-read", link_types)
