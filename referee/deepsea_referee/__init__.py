"""The referee of Deep Sea Adventure bot games. Start reading at match.py."""

import logging

# What is logged here goes to whoever listens, and not to stderr by itself: the results report it.
logging.getLogger(__name__).addHandler(logging.NullHandler())
