"""The ladder's site: results for everybody, and pages of members with their forms.

Invariants: a page is a function of a store's revision and its address; it starts no bot and writes
nothing; a page reads through the arena, and its CSV is the document that its template shows.

Start reading at `page.py` (what a page is), then `pages/standings.py` (one of them), `app.py`
(from request to response); `deepsea_web.serve` is the process.
"""
