"""Settings of Sphinx. The site loads nothing from other hosts, and works from files, offline."""

import re
from importlib.metadata import version as version_of
from typing import Any

from docsite.api import with_types_as_text

project = "nextquery"
copyright = "the nextquery contributors"
version = release = version_of("nextquery")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["files"]
html_theme = "furo"
html_favicon = "../src/nextquery/service/page/icon.svg"
html_title = f"nextquery {release}"
html_show_sphinx = False
html_copy_source = False
html_permalinks_icon = "#"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b6b6b", "color-brand-content": "#0b6b6b"},
    "dark_css_variables": {"color-brand-primary": "#62c9c1", "color-brand-content": "#62c9c1"},
}
language = "en"
myst_heading_anchors = 4
myst_enable_extensions = ["substitution"]
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
napoleon_google_docstring = False
napoleon_use_rtype = False
default_role = "code"
nitpicky = True
nitpick_ignore_regex = [
    # Types of other packages (their documentation is elsewhere), and ours that are not public.
    (r"py:.*", r"(?!nextquery\.).*"),
    (r"py:class", r"nextquery\.(arms\.\w+|folders|catalogue\.\w+|forecast|loop)\.\w+"),
    (r"py:class", r"nextquery\.selection\.schedule\.\w+"),
    (r"py:class", r"nextquery\.memory\.\w+\.\w+"),
    (r"py:class", r"nextquery\.research\.rivals\.rival\.Ranking"),
]


def _docstring(
    _app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]
) -> None:
    with_types_as_text(lines)


_ARRAY_LIKE = re.compile(r"_Buffer \| _SupportsArray.*?_NestedSequence\[complex \| bytes \| str\]")


def _signature(*event: Any) -> tuple[str | None, str | None]:
    """Call by its name the type that numpy accepts as an array."""
    signature, returned = event[5], event[6]
    return _ARRAY_LIKE.sub("ArrayLike", signature or "") or signature, returned


def setup(app: Any) -> None:
    """Connect our docstrings to autodoc, before napoleon reads them."""
    app.connect("autodoc-process-docstring", _docstring, priority=100)
    app.connect("autodoc-process-signature", _signature)
