"""The toy experiment, as the tests of experiments have it."""

from tests.fleet.experiments.conftest import toy  # noqa: F401
