"""Builds the documentation with Sphinx; `make docs` runs it."""

from tacit import __version__

project = "tacit"
release = __version__
extensions = ["sphinx.ext.napoleon", "myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_show_copyright = False
html_title = f"tacit {release}"
autodoc_typehints = "description"
# Links that lead out of the documentation, to files of the repository.
suppress_warnings = ["myst.xref_missing"]
