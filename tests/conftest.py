"""Hypothesis profiles: `ci` by default, `nightly` with a hundred times the examples."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = (
    "tests.support.apiserver.apiserver",
    "tests.support.apiserver.controller_manager",
    "tests.support.apiserver.operator_webhook",
)

settings.register_profile(
    "ci", max_examples=1000, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", max_examples=100_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
