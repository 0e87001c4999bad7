"""Machines: long-lived sandboxes."""
