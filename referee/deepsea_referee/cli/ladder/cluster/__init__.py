"""The ladder's games on many machines: the workers of a Dask cluster play them.

host.py runs on the workers, link.py on the event loop of Dask's client, crew.py for the runner.
"""
