import type { PoolReply } from "@sandpool/protocol";
import { SandpoolError } from "../errors.ts";
import { viewAsTypedArray } from "../values/dtypes.ts";
import { NdArray, zeroBytes } from "../values/ndarray.ts";
import { Tuple, type Value } from "../values/types.ts";

/** The form of a pool's observations, decided once at creation. */
export type Layout = PoolReply["layout"];
type ArrayLayout = Extract<Layout, { kind: "array" }>;
type LayoutTree = ArrayLayout["tree"];

/** The observation columns of a reply: one array a field, or one value a row. */
export type ObservationColumns = { kind: "array"; fields: NdArray[] } | { kind: "list"; values: Value[] };

/** Observations of a pool: the form fixed at its creation, and each row's last good one. */
export interface Observations {
  /** Takes a batch's columns for `rows` (null: all) and gives every row's: the last good one where a row failed or was not selected; in a list pool null where it failed. */
  merge(columns: ObservationColumns, rows: readonly number[] | null, failed: readonly number[]): Value;
  /** Every row's last good observation: zeros, or in a list pool null, where there was none. Arrays are the caller's own. */
  last(): Value;
  /** Takes the columns of a few rows, in their order; failed ones get their last good observation, in a list pool null. */
  take(columns: ObservationColumns, rows: readonly number[], failed: readonly number[]): ObservationColumns;
  /** Observations of what `take` gave, one after another; arrays are the caller's own. */
  join(parts: readonly ObservationColumns[]): Value;
  /** One row of what `take` gave, in memory of its own. */
  at(part: ObservationColumns, place: number): Value;
  /** Some rows of what `take` gave. */
  pick(part: ObservationColumns, places: readonly number[]): ObservationColumns;
}

/** The store for a pool's layout. */
export function makeObservations(layout: Layout, n: number): Observations {
  return layout.kind === "array" ? new ArrayObservations(layout, n) : new ListObservations(n);
}

class ArrayObservations implements Observations {
  private readonly layout: ArrayLayout;
  private readonly n: number;
  private latest: NdArray[];

  constructor(layout: ArrayLayout, n: number) {
    this.layout = layout;
    this.n = n;
    this.latest = layout.fields.map((field) => zeros(field.dtype, [n, ...field.shape]));
  }

  merge(columns: ObservationColumns, rows: readonly number[] | null, failed: readonly number[]): Value {
    const fields = this.check(columns, rows?.length ?? this.n);
    if (rows === null) {
      for (const [index, received] of fields.entries()) copyRows(this.field(index), failed, received, failed);
      this.latest = fields;
    } else this.keep(fields, rows, failed);
    return this.last();
  }

  last(): Value {
    return this.assemble((index) => this.field(index).copy());
  }

  take(columns: ObservationColumns, rows: readonly number[], failed: readonly number[]): ObservationColumns {
    const fields = this.check(columns, rows.length);
    this.keep(fields, rows, failed);
    const places = failed.map((row) => rows.indexOf(row));
    for (const [index, received] of fields.entries()) copyRows(this.field(index), failed, received, places);
    return { kind: "array", fields };
  }

  join(parts: readonly ObservationColumns[]): Value {
    return this.assemble((index) => {
      const { dtype, shape } = this.layout.fields[index] as ArrayLayout["fields"][number];
      const columns = parts.map((part) => (part as { fields: NdArray[] }).fields[index] as NdArray);
      const count = columns.reduce((sum, column) => sum + (column.shape[0] ?? 0), 0);
      const joined = zeros(dtype, [count, ...shape]);
      const bytes = joined.toBytes();
      let at = 0;
      for (const column of columns) {
        bytes.set(column.toBytes(), at);
        at += column.data.byteLength;
      }
      return joined;
    });
  }

  at(part: ObservationColumns, place: number): Value {
    return this.assemble((index) => ((part as { fields: NdArray[] }).fields[index] as NdArray).row(place).copy());
  }

  pick(part: ObservationColumns, places: readonly number[]): ObservationColumns {
    const fields = (part as { fields: NdArray[] }).fields.map((column) => {
      const picked = zeros(column.dtype, [places.length, ...column.shape.slice(1)]);
      copyRows(column, places, picked, [...places.keys()]);
      return picked;
    });
    return { kind: "array", fields };
  }

  private keep(fields: readonly NdArray[], rows: readonly number[], failed: readonly number[]): void {
    const places = [...rows.keys()].filter((place) => !failed.includes(rows[place] as number));
    const good = places.map((place) => rows[place] as number);
    for (const [index, received] of fields.entries()) copyRows(received, places, this.field(index), good);
  }

  private field(index: number): NdArray {
    return this.latest[index] as NdArray;
  }

  private check(columns: ObservationColumns, count: number): NdArray[] {
    if (columns.kind !== "array") throw violation("observations that are a list of values", "arrays");
    for (const [index, { dtype, shape }] of this.layout.fields.entries()) {
      const received = columns.fields[index];
      const expected = `${dtype} [${[count, ...shape].join(", ")}]`;
      const given = received === undefined ? "nothing" : `${received.dtype} [${received.shape.join(", ")}]`;
      if (given !== expected) throw violation(`${given} as observation field ${index}`, expected);
    }
    return columns.fields;
  }

  private assemble(leaf: (field: number) => NdArray, tree: LayoutTree = this.layout.tree): Value {
    if ("field" in tree) return leaf(tree.field);
    if ("tuple" in tree) return Tuple.fromItems(tree.tuple.map((part) => this.assemble(leaf, part)));
    return Object.fromEntries(tree.dict.map(([key, part]) => [key, this.assemble(leaf, part)]));
  }
}

class ListObservations implements Observations {
  private readonly latest: Value[];

  constructor(n: number) {
    this.latest = new Array<Value>(n).fill(null);
  }

  merge(columns: ObservationColumns, rows: readonly number[] | null, failed: readonly number[]): Value {
    this.take(columns, rows ?? [...this.latest.keys()], failed);
    const lost = new Set(failed);
    return this.latest.map((value, row) => (lost.has(row) ? null : value));
  }

  last(): Value {
    return [...this.latest];
  }

  take(columns: ObservationColumns, rows: readonly number[], failed: readonly number[]): ObservationColumns {
    if (columns.kind !== "list") throw violation("observations that are arrays", "a list of values");
    if (columns.values.length !== rows.length) {
      throw violation(`${columns.values.length} observations`, `${rows.length}, one a row`);
    }
    const lost = new Set(failed);
    const values = rows.map((row, place) => (lost.has(row) ? null : (columns.values[place] as Value)));
    for (const [place, row] of rows.entries()) if (!lost.has(row)) this.latest[row] = values[place] as Value;
    return { kind: "list", values };
  }

  join(parts: readonly ObservationColumns[]): Value {
    return parts.flatMap((part) => (part as { values: Value[] }).values);
  }

  at(part: ObservationColumns, place: number): Value {
    return (part as { values: Value[] }).values[place] ?? null;
  }

  pick(part: ObservationColumns, places: readonly number[]): ObservationColumns {
    return { kind: "list", values: places.map((place) => this.at(part, place)) };
  }
}

/** Copies rows from one array to another: `source[from[k]]` becomes `target[to[k]]`. */
function copyRows(source: NdArray, from: readonly number[], target: NdArray, to: readonly number[]): void {
  const [sourceBytes, targetBytes] = [source.toBytes(), target.toBytes()];
  const rowBytes = sourceBytes.length / (source.shape[0] || 1);
  for (const [place, row] of from.entries()) {
    targetBytes.set(sourceBytes.subarray(row * rowBytes, (row + 1) * rowBytes), (to[place] as number) * rowBytes);
  }
}

function zeros(dtype: string, shape: number[]): NdArray {
  return new NdArray(dtype, shape, viewAsTypedArray(dtype, zeroBytes(dtype, shape)));
}

function violation(received: string, expected: string): SandpoolError {
  return new SandpoolError("protocol_violation", `The server sent ${received}; the pool's layout says ${expected}.`, {
    hint: "Update the client and the server to the same version.",
  });
}
