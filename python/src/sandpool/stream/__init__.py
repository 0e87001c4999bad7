"""Rows that do not wait for each other: results in finish order over one WebSocket."""
