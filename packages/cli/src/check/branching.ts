import { ForkUnsupportedError, type RLPool, type SavedState, type UncopiedSource, type Value } from "sandpool";
import type { ActionSource, ActionSourceFactory } from "./actions.ts";
import { addFirstDifference, type DeterminismResult, type Moment, momentOf } from "./determinism.ts";
import { observationOf } from "./rows.ts";

/** What became of a save, some steps, a restore and the same steps. */
export interface BranchingResult extends DeterminismResult {
  /** How the rows were copied; null where they were not. */
  way: SavedState["way"] | null;
  /** What could not be copied, and why. */
  uncopied: UncopiedSource[];
}

const PREFIX_STEPS = 3;
const STEP_LIMIT = 20;

/**
 * Saves every row in the middle of an episode, steps, restores, and steps with the same actions: each row must go the same way twice.
 * Ends at the first end of an episode or the first failed row.
 */
export async function tryBranching(pool: RLPool, sources: ActionSourceFactory, seed: number): Promise<BranchingResult> {
  const result: BranchingResult = { way: null, uncopied: [], steps: 0, differences: [], infoDifferences: [] };
  const actions = sources();
  const start = await playPrefix(pool, actions, seed);
  if (start === null) return result;
  try {
    const states = await pool.save();
    const first = await play(pool, start, (infos) => drawAll(actions, infos));
    const { observations, errors } = await pool.restore(states);
    const restored = start.map((moment, row) => ({ ...moment, observation: observationOf(observations, row) }));
    const again = first.actions.values();
    const second = errors.size > 0 ? null : await play(pool, restored, () => again.next().value ?? null);
    await pool.drop(states);
    result.way = states[0]?.way ?? null;
    result.steps = second === null ? 0 : (first.trajectories[0]?.length ?? 0);
    for (const [row, trajectory] of first.trajectories.entries()) {
      const between = `row ${row} and its restored copy`;
      addFirstDifference(result, between, trajectory, second?.trajectories[row] ?? []);
      if (result.differences.length > 0) break;
    }
  } catch (error) {
    if (!(error instanceof ForkUnsupportedError)) throw error;
    result.uncopied = error.sources;
  }
  return result;
}

/** Some steps into an episode; without them where it would end. Null where a row fails. */
async function playPrefix(pool: RLPool, actions: ActionSource, seed: number): Promise<Moment[] | null> {
  for (const steps of [PREFIX_STEPS, 0]) {
    const reset = await pool.reset({ seed });
    if (reset.errors.size > 0) return null;
    const flags = { reward: 0, terminated: false, truncated: false };
    const start = reset.infos.map((info, row) => ({
      ...flags,
      observation: observationOf(reset.observations, row),
      info,
    }));
    const { trajectories, hasEnded } = await play(pool, start, (infos) => drawAll(actions, infos), steps);
    if (!hasEnded) return trajectories.map((trajectory) => trajectory.at(-1) as Moment);
  }
  return null;
}

interface Played {
  /** A moment before the first step and one after each, for every row. */
  trajectories: Moment[][];
  actions: Value[][];
  /** Whether a row failed or an episode ended. */
  hasEnded: boolean;
}

async function play(
  pool: RLPool,
  start: readonly Moment[],
  choose: (infos: readonly Moment["info"][]) => Value[] | null,
  limit = STEP_LIMIT,
): Promise<Played> {
  const played: Played = { trajectories: start.map((moment) => [moment]), actions: [], hasEnded: false };
  while (played.actions.length < limit && !played.hasEnded) {
    const chosen = choose(played.trajectories.map((trajectory) => trajectory.at(-1)?.info ?? {}));
    if (chosen === null) break;
    const result = await pool.step(chosen);
    played.actions.push(chosen);
    played.hasEnded = result.errors.size > 0 || result.dones.includes(true);
    if (result.errors.size > 0) break;
    for (const [row, trajectory] of played.trajectories.entries()) trajectory.push(momentOf(result, row));
  }
  return played;
}

function drawAll({ draw }: ActionSource, infos: readonly Moment["info"][]): Value[] | null {
  return draw === null ? null : infos.map((info, row) => draw(row, info));
}
