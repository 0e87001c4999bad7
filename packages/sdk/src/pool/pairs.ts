import { ArgumentError } from "../errors.ts";
import { describe } from "../values/describe.ts";
import type { SavedState } from "./savedState.ts";
import { type Selection, selectRows, type Where } from "./selection.ts";

/** `false` or null: exact copies. `true`: seeds derived from the pool's; an integer s: row i gets s + i; a list: one for each pair, null for none. */
export type Reseed = boolean | number | null | readonly (number | null)[];

/** Sources and the rows that become their copies, in the caller's order. */
export interface Pairs<Source> {
  pairs: [source: Source, target: number][];
  /** The targets. */
  selection: Selection;
}

/** The pairs of a fork: one source to all targets, or source k to target k. Throws `ArgumentError`. */
export function forkPairs(source: unknown, target: unknown, n: number): Pairs<number> {
  const targets = targetsOf("target", target, n);
  if (!Array.isArray(source)) {
    checkRow("source", source, n);
    return pair(
      targets.map(() => source as number),
      targets,
      n,
    );
  }
  for (const [place, row] of source.entries()) checkRow(`source[${place}]`, row, n);
  if (source.length !== targets.length) throw unequal("sources", source.length, targets.length);
  return pair(source as number[], targets, n);
}

/** The pairs of a restore: state k to target k, one state to all targets, or each to the row it came from. Throws `ArgumentError`. */
export function restorePairs(states: readonly SavedState[], where: Where | null, n: number): Pairs<string> {
  if (where === null) {
    const rows = states.map(({ row }) => row);
    const twice = rows.find((row, place) => rows.indexOf(row) !== place);
    if (twice !== undefined) {
      throw new ArgumentError(
        `restore got two states of row ${twice} and no where; expected at most one state of each row.`,
        { hint: "Pass where: the target rows in the order of the states." },
      );
    }
    return pair(
      states.map(({ id }) => id),
      rows,
      n,
    );
  }
  const targets = targetsOf("where", where, n);
  const [only] = states;
  if (only !== undefined && states.length === 1) {
    return pair(
      targets.map(() => only.id),
      targets,
      n,
    );
  }
  if (states.length !== targets.length) throw unequal("states", states.length, targets.length);
  return pair(
    states.map(({ id }) => id),
    targets,
    n,
  );
}

/** `reseed` as the request has it. Throws `ArgumentError`. */
export function readReseed(reseed: unknown, count: number): true | number | null | (number | null)[] {
  if (reseed === undefined || reseed === null || reseed === false) return null;
  if (reseed === true) return true;
  if (!Array.isArray(reseed)) {
    checkSeed("reseed", reseed);
    return reseed as number;
  }
  for (const [place, seed] of reseed.entries()) if (seed !== null) checkSeed(`reseed[${place}]`, seed);
  if (reseed.length === count) return reseed as (number | null)[];
  throw new ArgumentError(`reseed has ${reseed.length} items; expected ${count}, one for each pair.`);
}

function pair<Source>(sources: readonly Source[], targets: readonly number[], n: number): Pairs<Source> {
  return {
    pairs: targets.map((target, place) => [sources[place] as Source, target]),
    selection: selectRows(targets, n),
  };
}

/** Rows in the caller's order; those of a mask ascend. */
function targetsOf(name: string, given: unknown, n: number): number[] {
  if (typeof given === "number") {
    checkRow(name, given, n);
    return [given];
  }
  if (!Array.isArray(given)) {
    throw new ArgumentError(
      `${name} is ${describe(given)}; expected a row, a list of rows, or a mask of ${n} booleans.`,
    );
  }
  if (typeof given[0] === "boolean") return [...(selectRows(given as boolean[], n).rows ?? [])];
  for (const [place, row] of given.entries()) checkRow(`${name}[${place}]`, row, n);
  const twice = given.find((row, place) => given.indexOf(row) !== place);
  if (twice !== undefined) throw new ArgumentError(`${name} has row ${twice} twice; expected each target once.`);
  return given as number[];
}

function checkRow(name: string, row: unknown, n: number): void {
  if (Number.isSafeInteger(row) && (row as number) >= 0 && (row as number) < n) return;
  throw new ArgumentError(`${name} is ${describe(row)}; expected a whole number from 0 to ${n - 1}.`);
}

function checkSeed(name: string, seed: unknown): void {
  if (Number.isSafeInteger(seed) && (seed as number) >= 0) return;
  throw new ArgumentError(
    `${name} is ${describe(seed)}; expected true, a whole number from 0 to 2^53 - 1, or a list with one for each pair.`,
  );
}

function unequal(what: string, received: number, targets: number): ArgumentError {
  return new ArgumentError(
    `${received} ${what} were given for ${targets} targets; expected one for all, or one for each.`,
  );
}
