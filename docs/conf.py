"""The documentation site: ``make docs`` writes it to build/docs, ready to open without a server."""

import sys
from pathlib import Path

import kuq

sys.path[:0] = [str(Path(__file__).parent / "_extensions")]

project = "kuq"
author = "The kuq authors"
project_copyright = author
release = version = kuq.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "docstrings",
    "drawings",
    "mathml",
    "printed",
]
exclude_patterns = ["_build", "_extensions", "results/paper", "results/quick"]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nitpicky = True
# Types in signatures name private modules and other libraries; links in the text are all checked.
nitpick_ignore_regex = [("py:(class|data|exc)", r".*")]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True
autodoc_type_aliases = {"Array": "Array"}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme = "furo"
html_title = f"kuq {version}"
html_static_path = ["_static"]
html_css_files = ["kuq.css"]
html_favicon = "_static/favicon.svg"
html_math_renderer = "mathml"
html_show_sphinx = False
html_copy_source = False
html_show_search_summary = False  # excerpts would be fetched, which a browser refuses for files
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#a84300",
        "color-brand-content": "#0062a3",
        "kuq-code": "#f5f6f8",
    },
    "dark_css_variables": {
        "color-brand-primary": "#ff9d57",
        "color-brand-content": "#6cb8f0",
        "kuq-code": "#23262a",
    },
    "top_of_page_buttons": [],
}
copybutton_exclude = ".linenos, .gp, .go"
