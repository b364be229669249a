"""The page of a match that is being played: `match --browser` and `compare --browser`.

feed.py    the match's side: starts the page's process and hands games over to it
server.py  the page's process: reads games from its stdin, serves them, and ends
news.py    the games that it keeps, and its readers
"""
