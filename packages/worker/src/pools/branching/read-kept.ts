import type { BranchPair } from "./pairs.ts";
import type { KeptState } from "./states.ts";

/** The states of an agent's reply, one for each pair (row, slot) in their order; null where they are not those. */
export function readKept(given: unknown, pairs: readonly BranchPair[]): KeptState[] | null {
  if (!Array.isArray(given) || given.length !== pairs.length) return null;
  const bySlot = new Map(given.map((state: Record<string, unknown>) => [state.slot, state]));
  const kept: KeptState[] = [];
  for (const { source, target } of pairs) {
    const state = bySlot.get(target);
    if (state === undefined || state.row !== source) return null;
    const { episode, step, seed, pending, way } = state;
    kept.push({
      slot: target,
      row: source,
      episode: countOf(episode),
      step: countOf(step),
      seed: Number.isSafeInteger(seed) ? (seed as number) : null,
      pending: pending === true,
      way: way === "state" ? "state" : "fork",
    });
  }
  return kept;
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : 0;
}
