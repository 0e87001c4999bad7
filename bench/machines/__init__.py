"""What the topic `machines` measures: each file one question, each beside the same work done with the runtime by hand."""
