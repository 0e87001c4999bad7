# make quickstart   install everything and solve CartPole with 256 isolated environments
# make test         install everything and run every check and test
.PHONY: help setup quickstart test test-trainers soak lint format bench clean

help:
	@sed -n 's/^# //p' Makefile

# install everything into the checkout
setup:
	@echo "Sandpool: setting up"
	@scripts/setup

quickstart: setup
	@scripts/quickstart

# make lint         formatting, linting and types of all three languages
lint: setup
	@scripts/lint

test: setup
	@scripts/test

# make test-trainers  the adapters under Stable-Baselines3, TorchRL and RLlib, installed apart
test-trainers: setup
	@scripts/test-trainers

# make soak         faults at every step of every verb, and 2,000 random operations; hours. SANDPOOL_SEED=N plays a mix again
soak: setup
	@scripts/soak

# make format       put all files into their standard form
format: setup
	@scripts/format

# make bench        side-by-side measurements; BENCH="steps start" picks some
bench: setup
	@scripts/bench $(BENCH)

# make clean        remove everything that setup and the builds made
clean:
	rm -rf .tools .trainers .venv node_modules agent/target bench/floor/target packages/*/dist
