"""Charts of a match or a comparison, and of a rating: one SVG, or one page that holds all."""

from deepsea_web.charts.course import course
from deepsea_web.charts.files import charts_html, charts_of, charts_svg

__all__ = ["charts_html", "charts_of", "charts_svg", "course"]
