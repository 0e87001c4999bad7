import { expect, test } from "vitest";
import { Bodies } from "../../src/agent/bodies.ts";

test("memory of a large body is used again once it was given back, also for one that is a little longer", () => {
  const bodies = new Bodies();
  const first = bodies.take(1_000_000);
  expect(first.length).toBe(1_000_000);
  const second = bodies.take(1_000_000);
  expect(second.buffer).not.toBe(first.buffer);
  bodies.give(first);
  const third = bodies.take(1_100_000);
  expect([third.length, third.buffer]).toEqual([1_100_000, first.buffer]);
});

test("memory much larger than what is asked for is not bound by it", () => {
  const bodies = new Bodies();
  const large = bodies.take(1_000_000);
  bodies.give(large);
  expect(bodies.take(100_000).buffer).not.toBe(large.buffer);
});

test("small bodies are left to the collector", () => {
  const bodies = new Bodies();
  const small = bodies.take(1000);
  bodies.give(small);
  expect(bodies.take(1000)).not.toBe(small);
});
