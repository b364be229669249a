"""The page of a person's seat: what it may see (seat.py), the page (page.py), a server for one."""
