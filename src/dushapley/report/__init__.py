"""The page people read: `summarize` (valuation → plain dict, pure) and `render` (dict → HTML).

One file, no network, no script needed to read it: figures are drawn here, as static SVG by
matplotlib, not in the browser. A page that is mailed, printed and argued about should show the
same picture to everybody, forever; a plotting library in JavaScript would add 900 KB that
nobody can read to 60 KB that anybody can. Colours are CSS variables, so the figures follow light
and dark mode; text in them stays text. The picture that matters most, values with their error
bars, is part of the table itself (a few SVG shapes in every row), so that it sorts with it, fits
a phone and reads as well with 2 owners as with 100. Owners' names stand in figures as text, up to
15 of them; of more, their ranks.
"""

from dushapley.report.letters import owner_page
from dushapley.report.page import render, report
from dushapley.report.summary import summarize
from dushapley.report.text import text_table

__all__ = ["owner_page", "render", "report", "summarize", "text_table"]
