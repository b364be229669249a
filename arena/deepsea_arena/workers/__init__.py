"""Workers that play the ladder's games: processes on this machine, or a Dask cluster."""
