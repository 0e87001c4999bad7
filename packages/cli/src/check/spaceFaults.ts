import type { Value } from "sandpool";
import { findOutside, hasCustomPart } from "./contains.ts";
import { describeSpace, type Space } from "./spaces.ts";

/** Observations looked at against the announced space. */
export interface SpaceFaults {
  /** The announced space in a line; null without one. */
  announced: string | null;
  /** A part of the space cannot be checked. */
  partly: boolean;
  looked: number;
  outside: number;
  first: { row: number; step: number; reason: string } | null;
  look: (observation: Value, row: number, step: number) => void;
}

/** Counts observations outside the announced space and keeps the first. */
export function findSpaceFaults(space: Space | null): SpaceFaults {
  const faults: SpaceFaults = {
    announced: space === null ? null : describeSpace(space),
    partly: space !== null && hasCustomPart(space),
    looked: 0,
    outside: 0,
    first: null,
    look: (observation, row, step) => {
      if (space === null) return;
      faults.looked += 1;
      const reason = findOutside(space, observation, "observation");
      if (reason === null) return;
      faults.outside += 1;
      faults.first ??= { row, step, reason };
    },
  };
  return faults;
}
