"""The ladder's site: results for everybody, and pages of members with their forms.

Invariants: a page is a function of its address and of what is stored, whoever asks; it starts no
bot and writes nothing; a page reads through the arena, and its CSV is the document that its
template shows.

Start reading at `page.py` (what a page is), then `pages/standings.py` (one of them), `app.py`
(from request to response); `deepsea_web.serve` is the process.
"""
