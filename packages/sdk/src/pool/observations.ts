import { SandpoolError } from "../errors.ts";
import { viewAsTypedArray } from "../values/dtypes.ts";
import { NdArray } from "../values/ndarray.ts";
import { Tuple, type Value } from "../values/types.ts";

export type LayoutTree = { field: number } | { dict: [string, LayoutTree][] } | { tuple: LayoutTree[] };

/** The form of a pool's observations, decided once at creation. */
export type Layout =
  | { kind: "list" }
  | { kind: "array"; fields: { dtype: string; shape: number[] }[]; tree: LayoutTree };

/** The observation columns of a reply: one array a field, or one value a row. */
export type ObservationColumns = { kind: "array"; fields: NdArray[] } | { kind: "list"; values: Value[] };

/** The last observation of every row; joins partial replies and failed rows into full batches. */
export class Observations {
  private readonly layout: Layout;
  private readonly n: number;
  private fields: NdArray[];
  private values: Value[];

  constructor(layout: Layout, n: number) {
    this.layout = layout;
    this.n = n;
    this.fields = layout.kind === "array" ? layout.fields.map((field) => zeros(field.dtype, [n, ...field.shape])) : [];
    this.values = new Array<Value>(n).fill(null);
  }

  /** Takes a reply for `rows` (null: all). Failed rows keep their last observation in an array pool and are null in a list pool. */
  update(columns: ObservationColumns, rows: readonly number[] | null, failed: readonly number[]): void {
    if (columns.kind !== this.layout.kind) {
      throw new SandpoolError(
        "protocol_violation",
        `The server sent observations of kind ${columns.kind}; the pool is a ${this.layout.kind} pool.`,
      );
    }
    if (columns.kind === "array") this.updateFields(columns.fields, rows, new Set(failed));
    else this.updateValues(columns.values, rows);
  }

  /** Every row: an array, or a dict or tuple of arrays, or a list of values. Arrays are the caller's own: neither side's later writes reach the other. */
  current(): Value {
    if (this.layout.kind === "list") return [...this.values];
    return this.assemble(this.layout.tree, (field) => (this.fields[field] as NdArray).copy());
  }

  /** One row's observation, without the first axis. */
  row(index: number): Value {
    if (this.layout.kind === "list") return this.values[index] ?? null;
    return this.assemble(this.layout.tree, (field) => (this.fields[field] as NdArray).row(index));
  }

  private updateFields(fields: readonly NdArray[], rows: readonly number[] | null, failed: ReadonlySet<number>): void {
    const selected = rows ?? Array.from({ length: this.n }, (_, row) => row);
    this.fields = this.fields.map((last, field) => {
      const received = fields[field];
      if (received === undefined || received.shape[0] !== selected.length) {
        throw new SandpoolError(
          "protocol_violation",
          `Observation field ${field} came with ${received?.shape[0] ?? "no"} rows; expected ${selected.length}.`,
        );
      }
      if (rows === null && failed.size === 0) return received;
      const next = last.copy();
      for (const [place, row] of selected.entries()) {
        if (!failed.has(row)) next.row(row).toBytes().set(received.row(place).toBytes());
      }
      return next;
    });
  }

  private updateValues(values: readonly Value[], rows: readonly number[] | null): void {
    const next = [...this.values];
    for (const [place, value] of values.entries()) next[rows === null ? place : (rows[place] as number)] = value;
    this.values = next;
  }

  private assemble(tree: LayoutTree, leaf: (field: number) => NdArray): Value {
    if ("field" in tree) return leaf(tree.field);
    if ("tuple" in tree) return Tuple.fromItems(tree.tuple.map((part) => this.assemble(part, leaf)));
    return Object.fromEntries(tree.dict.map(([key, part]) => [key, this.assemble(part, leaf)]));
  }
}

function zeros(dtype: string, shape: number[]): NdArray {
  const items = shape.reduce((product, length) => product * length, 1);
  const empty = new NdArray(dtype, shape, new Uint8Array());
  return new NdArray(dtype, shape, viewAsTypedArray(dtype, new Uint8Array(items * empty.itemBytes)));
}
