import { encodeBatch } from "@sandpool/protocol";
import { actionsField } from "../pool/requests.ts";
import { requestJson } from "../values/json.ts";
import { NdArray } from "../values/ndarray.ts";
import type { Entry, Resets, Steps } from "./entries.ts";

/** A numbered message, kept until its rows are back: text, or a binary batch. */
export interface Outgoing {
  number: number;
  entries: readonly Entry[];
  rows: readonly number[];
  data: string | Buffer;
}

/** What every message of a group begins with. */
interface Head {
  number: number;
  op: "step" | "reset";
  where: readonly number[];
  received: number;
}

/**
 * Messages numbered from `number` on that carry all of `entries`, which have no row in common, as few as can: steps with arrays
 * of one dtype and shape are one message, so are steps with other actions, and so are resets. A reset with a whole number as its
 * seed stays alone, for to the pool it may be more than its rows' seeds.
 */
export function packEntries(entries: readonly Entry[], number: number, received: number): Outgoing[] {
  const groups = Map.groupBy(entries, kindOf);
  return [...groups.values()].map((group, place) => {
    const { op } = group[0] as Entry;
    const where = group.flatMap((entry) => entry.rows);
    const head = { number: number + place, op, where, received };
    const data = op === "reset" ? packResets(group as Resets[], head) : packSteps(group as Steps[], head);
    return { number: head.number, entries: group, rows: where, data };
  });
}

function kindOf(entry: Entry): unknown {
  if (entry.op === "reset") return typeof entry.seed === "number" ? entry : `reset hard ${entry.hard}`;
  if (!(entry.actions instanceof NdArray)) return "step";
  return `step ${entry.actions.dtype} ${entry.actions.shape.slice(1).join()}`;
}

function packSteps(group: readonly Steps[], head: Head): string | Buffer {
  const arrays = group.flatMap(({ actions }) => (actions instanceof NdArray ? [actions] : []));
  const [first] = arrays;
  if (first === undefined) return JSON.stringify({ ...head, actions: group.flatMap(({ actions }) => actions) });
  const data = arrays.flatMap((array) => actionsField(array).data);
  const field = { ...actionsField(first), shape: [head.where.length, ...first.shape.slice(1)], data };
  const { chunks, length } = encodeBatch({ ...head }, [field]);
  return Buffer.concat(chunks, length);
}

function packResets(group: readonly Resets[], head: Head): string {
  const { hard, ...only } = group[0] as Resets;
  if (group.length === 1) return requestJson({ ...head, seed: only.seed, options: only.options, hard });
  const each = (value: unknown, { rows }: Resets): unknown[] =>
    Array.isArray(value) ? value : rows.map(() => value ?? null);
  const seed = group.flatMap((entry) => each(entry.seed, entry));
  const options = group.flatMap((entry) => each(entry.options, entry));
  return requestJson({ ...head, seed, options, hard });
}
