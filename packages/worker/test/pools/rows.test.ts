import fc from "fast-check";
import { expect, test } from "vitest";
import { splitRows } from "../../src/pools/rows/ranges.ts";
import { pickElements, splitValues } from "../../src/pools/rows/raw-json.ts";
import { rowsOf, selectAll, selectRows } from "../../src/pools/rows/select.ts";

test("ranges are contiguous, cover every row and differ by one at most", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 1, max: 32 }), (n, wanted) => {
      const ranges = splitRows(n, Math.min(n, wanted));
      expect(ranges.flatMap(({ first, count }) => Array.from({ length: count }, (_, local) => first + local))).toEqual(
        Array.from({ length: n }, (_, row) => row),
      );
      const counts = ranges.map(({ count }) => count);
      expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
    }),
  );
});

test("indices in any order reach their shards ascending, with the order that leads back to the request", () => {
  const subset = fc.integer({ min: 1, max: 60 }).chain((n) =>
    fc.record({
      n: fc.constant(n),
      shards: fc.integer({ min: 1, max: n }),
      where: fc.shuffledSubarray(Array.from({ length: n }, (_, row) => row)),
    }),
  );
  fc.assert(
    fc.property(subset, ({ n, shards, where }) => {
      const ranges = splitRows(n, shards);
      const selection = selectRows(where, selectAll(ranges), ranges);
      const rows = selection.parts.flatMap((part) => [
        ...rowsOf(part, ranges[part.shard] as { first: number; count: number }),
      ]);
      expect(rows).toEqual([...where].sort((a, b) => a - b));
      expect((selection.order ?? where.map((_, position) => position)).map((position) => where[position])).toEqual(
        rows,
      );
      for (const part of selection.parts) {
        expect(rows.slice(part.offset, part.offset + part.count)).toEqual(
          rowsOf(part, ranges[part.shard] as { first: number; count: number }),
        );
      }
    }),
  );
});

test("a mask and its indices select the same", () => {
  const ranges = splitRows(7, 3);
  const all = selectAll(ranges);
  expect(selectRows([false, true, true, false, false, false, true], all, ranges)).toEqual(
    selectRows([1, 2, 6], all, ranges),
  );
});

test("values are split only between themselves", () => {
  fc.assert(
    fc.property(fc.array(fc.jsonValue(), { maxLength: 8 }), (values) => {
      const text = values.map((value) => JSON.stringify(value)).join(" , ");
      expect(splitValues(Buffer.from(text)).map((value) => JSON.parse(value.toString()))).toEqual(
        JSON.parse(`[${text}]`),
      );
    }),
  );
});

test("picked elements keep their text and the other members theirs", () => {
  const digits = "1".repeat(300);
  const text = `{ "x" : [1,2] , "act\\u0069ons" : [ 1.0, ${digits} , "a,]\\"" ] ,"seq":3}`;
  expect(pickElements(Buffer.from(text), "actions", [2, 1, 0]).toString()).toBe(
    `{ "x" : [1,2] , "act\\u0069ons" : [ "a,]\\"" , ${digits} , 1.0] ,"seq":3}`,
  );
});

test("the last of equal members counts, as it does for JSON.parse", () => {
  expect(pickElements(Buffer.from('{"a":[1],"a":[2,3]}'), "a", [1, 0]).toString()).toBe('{"a":[1],"a":[3,2]}');
  expect(pickElements(Buffer.from('{"a":null}'), "a", [0]).toString()).toBe('{"a":null}');
});
