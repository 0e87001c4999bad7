"""One machine for one block of a program."""
