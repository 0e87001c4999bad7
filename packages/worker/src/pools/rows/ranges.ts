/** The rows one shard owns: `first … first + count - 1`. */
export interface RowRange {
  first: number;
  count: number;
}

/** Global indices of a range's rows. */
export function rowsIn({ first, count }: RowRange): number[] {
  return Array.from({ length: count }, (_, local) => first + local);
}

/**
 * Splits n rows into contiguous ranges whose sizes differ by one at most; the longer ones come first.
 *
 * @example splitRows(5, 2) // [{ first: 0, count: 3 }, { first: 3, count: 2 }]
 */
export function splitRows(n: number, shards: number): RowRange[] {
  const small = Math.floor(n / shards);
  const longer = n % shards;
  const ranges: RowRange[] = [];
  let first = 0;
  for (let index = 0; index < shards; index += 1) {
    const count = small + (index < longer ? 1 : 0);
    ranges.push({ first, count });
    first += count;
  }
  return ranges;
}
