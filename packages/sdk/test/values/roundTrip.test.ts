import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeText, decodeValue } from "../../src/values/decode.ts";
import { encodeValue } from "../../src/values/encode.ts";
import { NdArray } from "../../src/values/ndarray.ts";
import { GraphInstance, Tuple, type Value } from "../../src/values/types.ts";

const overTheWire = (value: unknown): Value => decodeText(JSON.stringify(encodeValue(value)));

describe("values over the wire", () => {
  test("what is sent comes back equal, for every kind of value", () => {
    const leaf = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.boolean(),
      fc.constant(null),
      fc.double(),
      fc.bigInt({ min: 2n ** 53n + 1n, max: 2n ** 300n }),
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      fc.float32Array().map((data) => NdArray.from(data)),
      fc.int16Array().map((data) => NdArray.from(data)),
    );
    const { tree } = fc.letrec<{ tree: Value }>((tie) => ({
      tree: fc.oneof(
        { depthSize: "small" },
        leaf as fc.Arbitrary<Value>,
        fc.array(tie("tree")),
        fc.array(tie("tree")).map((items) => Tuple.fromItems(items)),
        fc.dictionary(
          fc.string().map((key) => `$${key}`),
          tie("tree"),
        ),
      ),
    }));
    fc.assert(
      fc.property(tree, (value) => {
        expect(normal(overTheWire(value))).toEqual(normal(value));
      }),
    );
  });

  test("integers beyond 2^53 keep every digit", () => {
    expect(decodeText("[9007199254740993, -123456789012345678901234567890, 1.5, 1234567890123456.5]")).toEqual([
      9007199254740993n,
      -123456789012345678901234567890n,
      1.5,
      1234567890123456.5,
    ]);
  });

  test("non-finite numbers and minus zero survive", () => {
    const sent = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0];
    expect(JSON.stringify(encodeValue(sent))).toBe('[{"$float":"nan"},{"$float":"inf"},{"$float":"-inf"},-0.0]');
    expect(overTheWire(sent)).toEqual(sent);
  });

  test("a graph keeps its three parts", () => {
    const graph = new GraphInstance(NdArray.from(Float32Array.of(1, 2)), null, null);
    expect(overTheWire(graph)).toEqual(graph);
  });

  test("arrays have numpy's dtype, shape and little-endian bytes", () => {
    const array = new NdArray("<f4", [1, 2], Float32Array.of(1, -2));
    expect(encodeValue(array)).toEqual({ $nd: ["<f4", [1, 2], "AACAPwAAAMA="] });
    expect(decodeValue({ $nd: ["<f4", [1, 2], "AACAPwAAAMA="] })).toEqual(array);
  });

  test("a numpy scalar becomes a plain number, boolean or bigint", () => {
    expect(decodeValue({ $nd: ["<f8", [], "AAAAAAAA+D8="] })).toBe(1.5);
    expect(decodeValue({ $nd: ["|b1", [], "AQ=="] })).toBe(true);
    expect(decodeValue({ $nd: ["<i8", [], "AQAAAAAAIAA="] })).toBe(9007199254740993n);
  });

  test("a scalar that JavaScript has no number for stays an array of its bytes", () => {
    const value = decodeValue({ $nd: ["<f16", [], "AAAAAAAAAIAAQAAAAAAAAA=="] });
    expect(value).toBeInstanceOf(NdArray);
  });

  test("a half-precision array is read exactly", () => {
    expect((decodeValue({ $nd: ["<f2", [2], "AD4AwA=="] }) as NdArray).toList()).toEqual([1.5, -2]);
  });
});

describe("a hostile value", () => {
  test.each([
    [{ $nd: ["<f4", [2], "AAAA"] }],
    [{ $nd: ["<f4", [-1], ""] }],
    [{ $nd: 3 }],
    [{ $nd: ["<f4", [1], "not base64!"] }],
    [{ $nd: ["|O", [1], "AAAAAAAAAAA="] }],
    [{ $nd: ["(2,2)f4", [1], "AAAAAAAAAAAAAAAAAAAAAA=="] }],
    [{ $nd: ["<f3", [], "AAAA"] }],
    [{ $nd: ["<f4", [true], "AADAPw=="] }],
    [{ $nd: ["", [], ""] }],
    [{ $nd: [["<f4"], [1], "AADAPw=="] }],
    [{ $bytes: "!" }],
    [{ $bytes: [1] }],
    [{ $graph: {} }],
    [{ $graph: [1] }],
    [{ $float: "seven" }],
    [{ $tuple: 3 }],
    [{ $pickle: "gASVAAAAAAAAAC4=" }],
  ])("%j stays plain data and costs nobody a batch", (value) => {
    expect(decodeValue(value)).toEqual(value);
  });

  test("a key named __proto__ changes no prototype", () => {
    const value = decodeText('{"__proto__": {"polluted": true}}') as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.keys(value)).toEqual(["__proto__"]);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });

  test("something that cannot be sent is refused with its place", () => {
    expect(() => encodeValue({ a: [1, () => 2] }, "actions[3]")).toThrow(
      /actions\[3\]\.a\[1\] is a function; expected/,
    );
    expect(() => encodeValue(new Date(0))).toThrow(/value is an object of class Date/);
  });
});

/** Arrays and tuples in a form `toEqual` compares by content; -0 and 0 apart, as JSON numbers keep them. */
function normal(value: Value): unknown {
  if (value instanceof NdArray) return { dtype: value.dtype, shape: value.shape, data: [...value.data] };
  if (Buffer.isBuffer(value)) return { bytes: value.toString("hex") };
  if (Array.isArray(value)) return { tuple: value instanceof Tuple, items: Array.from(value, normal) };
  if (typeof value === "object" && value !== null)
    return Object.entries(value).map(([key, item]) => [key, normal(item as Value)]);
  return value;
}
