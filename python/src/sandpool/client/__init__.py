"""The client object: one server and all it has."""
