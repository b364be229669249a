"""`python -m deepsea_web.live`: the process of the page; feed.py starts it."""

import os

os.nice(10)  # before the imports: they take the most of its time, and the match goes first

from deepsea_web.live.serve import main  # noqa: E402

main()
