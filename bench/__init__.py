"""Side-by-side measurements: ours and the peers' in one run, as ratios. `python -m bench --help` lists the topics."""
