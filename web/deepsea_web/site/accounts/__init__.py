"""Pages for those who have an account: who looks, forms, sessions, streams of their own.

Invariants: a page that depends on who looks is never kept, by the server or by anybody else; what
somebody may do is decided by the service alone; nothing is changed but by a form of this site that
was made for the session that sends it.
"""
