"""Results of a match: totals, times, results.json, the output folder."""
