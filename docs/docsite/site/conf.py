# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sphinx for the site that tests/setup/docs.sh builds: `make docs`."""

project = "drover.compute"
copyright = "The drover.compute authors"
html_title = html_short_title = "drover.compute"
extensions = ["myst_parser", "sphinx_antsibull_ext"]
myst_heading_anchors = 3
# READMEs link to files that are no pages, such as COPYING.
suppress_warnings = ["myst.xref_missing"]
html_theme = "sphinx_ansible_theme"
html_show_sphinx = False
html_theme_options = {
    "vcs_pageview_mode": "",
    "documentation_home_url": "https://docs.ansible.com/",
}
display_version = False
highlight_language = "yaml"
html_static_path = ["static"]
html_css_files = ["pages.css"]
pygments_style = "ansible"
html_show_sourcelink = False
html_use_smartypants = True
smartquotes = False
