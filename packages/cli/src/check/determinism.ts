import type { RLPool, Value, ValueObject } from "sandpool";
import type { ActionSource, ActionSourceFactory } from "./actions.ts";
import { firstDifference, type Difference as Place } from "./difference.ts";
import type { Difference } from "./findings.ts";
import { observationOf } from "./rows.ts";

/** What one row showed at one step. */
export interface Moment {
  observation: Value;
  reward: number;
  terminated: boolean;
  truncated: boolean;
  info: ValueObject;
}

export interface DeterminismResult {
  /** Moments compared; 0 when a failing row made a comparison impossible. */
  steps: number;
  /** In observation, reward or flags. */
  differences: Difference[];
  /** In info only. */
  infoDifferences: Difference[];
}

const STEP_LIMIT = 100;

/**
 * Plays the same seed and actions in every row, twice: rows must equal row 0, and row 0 must equal itself after another reset.
 * Ends at the first end of an episode or the first failed row.
 */
export async function compareTrajectories(
  pool: RLPool,
  sources: ActionSourceFactory,
  steps: number,
  seed: number,
): Promise<DeterminismResult> {
  const first = await play(pool, sources(), Math.min(steps, STEP_LIMIT), seed);
  const second = await play(pool, sources(), Math.min(steps, STEP_LIMIT), seed);
  const result: DeterminismResult = { steps: first[0]?.length ?? 0, differences: [], infoDifferences: [] };
  for (const [row, trajectory] of first.entries()) {
    if (row > 0) addFirstDifference(result, `row 0 and row ${row}`, first[0] ?? [], trajectory);
    if (result.differences.length > 0) break;
  }
  addFirstDifference(result, "row 0 and row 0 after a second reset", first[0] ?? [], second[0] ?? []);
  return result;
}

async function play(pool: RLPool, actions: ActionSource, steps: number, seed: number): Promise<Moment[][]> {
  const reset = await pool.reset({ seed: new Array<number>(pool.n).fill(seed) });
  if (reset.errors.size > 0) return [];
  const flags = { reward: 0, terminated: false, truncated: false };
  const trajectories = reset.infos.map((info, row) => [
    { ...flags, observation: observationOf(reset.observations, row), info },
  ]);
  const { draw } = actions;
  let info = reset.infos[0] ?? {};
  for (let step = 1; step <= steps && draw !== null; step += 1) {
    const action = draw(0, info);
    const result = await pool.step(new Array<Value>(pool.n).fill(action));
    if (result.errors.size > 0) break;
    for (const [row, trajectory] of trajectories.entries()) trajectory.push(momentOf(result, row));
    info = result.infos[0] ?? {};
    if (result.dones.includes(true)) break;
  }
  return trajectories;
}

/** A row of a step. */
export function momentOf(result: Awaited<ReturnType<RLPool["step"]>>, row: number): Moment {
  return {
    observation: observationOf(result.observations, row),
    reward: result.rewards[row] ?? 0,
    terminated: result.terminated[row] ?? false,
    truncated: result.truncated[row] ?? false,
    info: result.infos[row] ?? {},
  };
}

/** Notes the first place where two trajectories differ: in observation, reward or flags, and in info alone. */
export function addFirstDifference(
  result: DeterminismResult,
  between: string,
  left: readonly Moment[],
  right: readonly Moment[],
): void {
  const at = (step: number, place: Place): Difference => ({
    between,
    step,
    field: place.field,
    left: place.left,
    right: place.right,
  });
  for (let step = 0; step < Math.min(left.length, right.length); step += 1) {
    const { info: leftInfo, ...leftRest } = left[step] as Moment;
    const { info: rightInfo, ...rightRest } = right[step] as Moment;
    const place =
      firstDifference(leftRest.observation, rightRest.observation, "observation") ??
      firstDifference(leftRest.reward, rightRest.reward, "reward") ??
      firstDifference(leftRest.terminated, rightRest.terminated, "terminated") ??
      firstDifference(leftRest.truncated, rightRest.truncated, "truncated");
    if (place !== null) {
      result.differences.push(at(step, place));
      return;
    }
    const infoPlace = firstDifference(leftInfo, rightInfo, "info");
    if (infoPlace !== null && result.infoDifferences.length === 0) result.infoDifferences.push(at(step, infoPlace));
  }
}
