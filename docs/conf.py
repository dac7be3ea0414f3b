"""How Sphinx builds the site: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``, without a network."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the package _site, which makes the reference out of the code

project = "mpsprobe"
author = "the mpsprobe authors"
project_copyright = author
version = release = version_of("mpsprobe")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "_site"]
# Examples are other people's distributions, as far as this site is concerned.
exclude_patterns = ["_build", "examples", "**/.*"]
root_doc = "index"
show_warning_types = True

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_type_comments = False
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

smartquotes = False  # they would make one dash of the two of a flag

html_theme = "furo"
html_title = f"mpsprobe {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "monokai"
# A copied block of a terminal holds the commands that were typed, not what they printed.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
