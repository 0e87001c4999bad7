"""Programs run inside machines."""
