import { readFile } from "node:fs/promises";
import { decodeValue, type Value, type ValueObject } from "sandpool";
import { UsageError } from "../output/failure.ts";
import { Random } from "./random.ts";
import { sample, unsampleable } from "./sample.ts";
import { describeSpace, type Space } from "./spaces.ts";

/** Where the actions of a check come from; `draw` is null when there are none to send. */
export interface ActionSource {
  /** Such as `sampled from Discrete(2), seed 0`. */
  description: string;
  /** The action of one row; the same sequence of calls gives the same actions. */
  draw: ((row: number, info: ValueObject) => Value) | null;
}

/** Makes sources that start over: each phase of a check gets its own. */
export type ActionSourceFactory = () => ActionSource;

/** Actions of a file (one JSON value a line, used in turn), else drawn from the announced space, else none. */
export async function chooseActions(
  space: Space | null,
  file: string | undefined,
  seed: number,
): Promise<ActionSourceFactory> {
  if (file !== undefined) {
    const actions = await readActions(file);
    return () => fromList(actions, file);
  }
  if (space === null) return () => ({ description: "the environment announces no action space", draw: null });
  const reason = unsampleable(space);
  if (reason !== null) return () => ({ description: reason, draw: null });
  return () => fromSpace(space, seed);
}

function fromList(actions: readonly Value[], file: string): ActionSource {
  const sent = new Map<number, number>();
  return {
    description: `${actions.length} actions of ${file}, in turn`,
    draw: (row) => {
      const place = sent.get(row) ?? 0;
      sent.set(row, place + 1);
      return actions[place % actions.length] ?? null;
    },
  };
}

function fromSpace(space: Space, seed: number): ActionSource {
  const random = new Random(seed);
  return {
    description: `sampled from ${describeSpace(space)}, seed ${seed}`,
    draw: (_row, info) => sample(space, random, info.action_mask ?? null),
  };
}

async function readActions(file: string): Promise<Value[]> {
  const text = await readFile(file, "utf8");
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  if (lines.length === 0)
    throw new UsageError(`${file} has no actions; expected one JSON value a line.`, "Write at least one action.");
  return lines.map((line, index) => {
    try {
      return decodeValue(JSON.parse(line));
    } catch (cause) {
      throw new UsageError(
        `${file}, line ${index + 1} is not one JSON value: ${(cause as Error).message}.`,
        `Write one action a line, such as 0 or [0.5, -1] or {"$nd": …}.`,
      );
    }
  });
}
