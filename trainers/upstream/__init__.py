"""Plugins that point the test suites of other projects at Sandpool's adapters."""
