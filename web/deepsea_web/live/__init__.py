"""The page of a match that is being played: `match --browser` and `compare --browser`.

feed.py    the match's side: starts the page's process and hands games over to it
server.py  the page's process: reads games from its stdin, keeps and serves them, and ends
"""
