"""Files of machines, both ways."""
