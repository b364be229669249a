"""Pages: the viewer of games, charts, and what a browser is served."""
