"""How bytes get to the server and back."""
