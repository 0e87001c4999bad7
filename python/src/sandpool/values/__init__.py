"""Values of the environment protocol: tagged JSON to Python and back."""
