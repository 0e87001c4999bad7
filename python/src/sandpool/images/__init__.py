"""Images of machines."""
