"""Charts of a match or a comparison, and of a rating: one SVG, or one page that holds all."""
