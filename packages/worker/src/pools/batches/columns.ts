import { dtypeItemBytes, type Layout, shapeItems } from "@sandpool/protocol";
import type { BatchEncoding } from "../../worker.ts";

export type BatchOperation = "step" | "reset" | "call" | "observe";

/** One column of a batch reply as the agents send it and as it goes on: `list` and `members` are JSON text, `raw` fixed bytes a row. */
export type Column =
  | { form: "list"; name: string }
  | { form: "members"; name: string }
  | { form: "raw"; name: string; field: number | null; dtype: string; shape: readonly number[]; rowBytes: number };

const list = (name: string): Column => ({ form: "list", name });
const members = (name: string): Column => ({ form: "members", name });

/** The columns of a reply, in the order in which agents send them. */
export function columnsOf(operation: BatchOperation, encoding: BatchEncoding, layout: Layout): Column[] {
  if (encoding === "json") {
    const names = {
      step: ["obs", "rewards", "terminated", "truncated", "infos"],
      reset: ["obs", "infos"],
      observe: ["obs", "infos"],
      call: ["results", "infos"],
    }[operation];
    return names.map(list);
  }
  if (operation === "call") return [list("results"), members("infos")];
  const observations =
    layout.kind === "list" ? [list("obs")] : layout.fields.map((_, field) => observationColumn(layout, field));
  const flags =
    operation === "step"
      ? [
          rawColumn("rewards", null, "<f8", []),
          rawColumn("terminated", null, "|b1", []),
          rawColumn("truncated", null, "|b1", []),
        ]
      : [];
  return [...observations, ...flags, members("infos")];
}

function observationColumn(layout: Layout & { kind: "array" }, field: number): Column {
  const { dtype, shape } = layout.fields[field] as { dtype: string; shape: number[] };
  return rawColumn("obs", field, dtype, shape);
}

function rawColumn(name: string, field: number | null, dtype: string, shape: readonly number[]): Column {
  const rowBytes = (dtypeItemBytes(dtype) ?? 1) * (shapeItems(shape) ?? 0);
  return { form: "raw", name, field, dtype, shape, rowBytes };
}
