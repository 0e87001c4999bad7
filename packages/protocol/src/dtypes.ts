const ITEM_BYTES: Record<string, number> = {
  b1: 1,
  i1: 1,
  u1: 1,
  i2: 2,
  u2: 2,
  f2: 2,
  i4: 4,
  u4: 4,
  f4: 4,
  i8: 8,
  u8: 8,
  f8: 8,
  c8: 8,
  c16: 16,
};

/** Bytes of one item of a numpy dtype such as `<f4` or `|b1`; null if it may not travel. Big-endian never does. */
export function dtypeItemBytes(dtype: string): number | null {
  const order = dtype[0];
  const kind = dtype.slice(1);
  if ((order !== "<" && order !== "|") || !Object.hasOwn(ITEM_BYTES, kind)) return null;
  const bytes = ITEM_BYTES[kind] ?? null;
  return order === "|" && bytes !== 1 ? null : bytes;
}

/** Items of a shape; null where a length is no whole number or the product is beyond exact integers. */
export function shapeItems(shape: readonly number[]): number | null {
  let items = 1;
  for (const length of shape) {
    if (!Number.isSafeInteger(length) || length < 0) return null;
    items *= length;
    if (!Number.isSafeInteger(items)) return null;
  }
  return items;
}
