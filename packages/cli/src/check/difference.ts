import { GraphInstance, isValueObject, NdArray, type Value } from "sandpool";

export interface Difference {
  /** Such as `observation[2]` or `info.episode.r`. */
  field: string;
  left: Value;
  right: Value;
}

/** The first place where two values differ, exactly (NaN equals NaN); null when they are the same. */
export function firstDifference(left: Value, right: Value, field: string): Difference | null {
  if (Object.is(left, right) || left === right) return null;
  if (left instanceof NdArray && right instanceof NdArray) return arrayDifference(left, right, field);
  if (left instanceof Uint8Array && right instanceof Uint8Array) {
    return Buffer.compare(left, right) === 0 ? null : { field, left, right };
  }
  if (left instanceof GraphInstance && right instanceof GraphInstance) {
    return (
      firstDifference(left.nodes, right.nodes, `${field}.nodes`) ??
      firstDifference(left.edges, right.edges, `${field}.edges`) ??
      firstDifference(left.edgeLinks, right.edgeLinks, `${field}.edge_links`)
    );
  }
  if (Array.isArray(left) && Array.isArray(right)) return listDifference(left, right, field);
  if (isValueObject(left) && isValueObject(right)) return objectDifference(left, right, field);
  return { field, left, right };
}

function arrayDifference(left: NdArray, right: NdArray, field: string): Difference | null {
  const sameForm = left.dtype === right.dtype && left.shape.join() === right.shape.join();
  if (!sameForm || left.shape.length === 0) {
    const same = sameForm && Object.is(left.item(), right.item());
    return same ? null : { field, left, right };
  }
  for (let row = 0; row < (left.shape[0] ?? 0); row += 1) {
    const [leftRow, rightRow] = [left.row(row), right.row(row)];
    const scalar = leftRow.shape.length === 0;
    const found = firstDifference(
      scalar ? leftRow.item() : leftRow,
      scalar ? rightRow.item() : rightRow,
      `${field}[${row}]`,
    );
    if (found !== null) return found;
  }
  return null;
}

function listDifference(left: readonly Value[], right: readonly Value[], field: string): Difference | null {
  if (left.length !== right.length) return { field: `${field}.length`, left: left.length, right: right.length };
  for (const [index, item] of left.entries()) {
    const found = firstDifference(item, right[index] ?? null, `${field}[${index}]`);
    if (found !== null) return found;
  }
  return null;
}

function objectDifference(
  left: { [key: string]: Value },
  right: { [key: string]: Value },
  field: string,
): Difference | null {
  for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
    const found = firstDifference(left[key] ?? null, right[key] ?? null, `${field}.${key}`);
    if (found !== null) return found;
  }
  return null;
}
