"""`python -m deepsea_web.live`: the process of the page; feed.py starts it."""

import os

if hasattr(os, "nice"):  # not on Windows
    # Before the imports: they take the most of its time, and the match goes first.
    os.nice(10)

from deepsea_web.live.server import main

main()
