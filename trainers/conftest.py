"""All tests here have one server."""

pytest_plugins = ["trainers.upstream.server"]
