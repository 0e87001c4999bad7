import type { ActionSpace } from "../pool/actionSpace.ts";
import { type Actions, readActions } from "../pool/actions.ts";
import { checkHard, type RowOptions, readOptions, readSeeds, type Seeds } from "../pool/requests.ts";
import { selectRows, type Where } from "../pool/selection.ts";
import { encodeValue } from "../values/encode.ts";
import { NdArray } from "../values/ndarray.ts";

/** Steps of some rows; `actions` is one array `[k, …]`, or each action encoded. */
export interface Steps {
  op: "step";
  rows: readonly number[];
  actions: NdArray | readonly unknown[];
}

/** Resets of some rows; a whole number s as `seed` gives row i the seed s + i, `options` are encoded, for all or of each. */
export interface Resets {
  op: "reset";
  rows: readonly number[];
  seed: Seeds;
  options: unknown;
  hard: boolean;
}

/** What a caller asks of some rows, checked and in a form of its own: later changes to the arguments change nothing. */
export type Entry = Steps | Resets;

/** What a reset may be asked. */
export interface ResetChoice {
  where?: Where | null;
  /** Row i gets seed + i; or a list, null for a row's own rule. Default: the pool's rule for all. */
  seed?: Seeds;
  /** Kill, wipe the workspace and start anew instead of the environment's own reset. Default false. */
  hard?: boolean;
  /** One object for all rows, or a list: a task a row. */
  options?: RowOptions;
}

/** Checks the arguments of a `send`; throws `ArgumentError` as `step` does. */
export function makeSteps(actions: Actions, where: Where | null, n: number, space: ActionSpace | null): Steps {
  const selection = selectRows(where, n);
  const rows = selection.rows ?? [...new Array(n).keys()];
  const chosen = readActions(actions, selection, n, space);
  if (chosen instanceof NdArray) return { op: "step", rows, actions: chosen.copy() };
  return { op: "step", rows, actions: chosen.map((action, place) => encodeValue(action, `actions[${place}]`)) };
}

/** Checks the arguments of a `sendReset`; lists have one item for each selected row, in the order of `where`, or n. */
export function makeResets({ where, seed, options, hard }: ResetChoice, n: number): Resets {
  const selection = selectRows(where, n);
  return {
    op: "reset",
    rows: selection.rows ?? [...new Array(n).keys()],
    seed: readSeeds(seed, selection, n),
    options: readOptions(options, selection, n),
    hard: checkHard(hard),
  };
}
