"""Hypothesis for the rules tests: no deadline, since machines differ; the same examples in CI."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "here", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
