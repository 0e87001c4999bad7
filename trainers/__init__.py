"""Tests of the adapters under real trainers; `make test-trainers`."""
