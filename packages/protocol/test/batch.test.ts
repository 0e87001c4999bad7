import { readFileSync } from "node:fs";
import { Packr } from "msgpackr";
import { describe, expect, test } from "vitest";
import {
  type BatchField,
  decodeBatch,
  decodeStepBatch,
  encodeBatch,
  readMsgpack,
  SandpoolError,
} from "../src/index.ts";

const packr = new Packr({ useRecords: false });

function step(map: Record<string, unknown>, fields: BatchField[]): Buffer {
  return Buffer.concat(encodeBatch(map, fields).chunks);
}

function actions(overrides: Partial<BatchField> = {}): BatchField {
  return { name: "actions", dtype: "<i8", shape: [2], data: [Buffer.alloc(16)], ...overrides };
}

function codeOf(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (error instanceof SandpoolError) return error.code;
    throw error;
  }
  return "nothing thrown";
}

describe("encodeBatch", () => {
  test("every buffer starts at a multiple of 64 and fragments of one column are joined", () => {
    const fields: BatchField[] = [
      {
        name: "obs",
        field: 0,
        dtype: "<f4",
        shape: [2, 1],
        data: [Buffer.from([1, 0, 0, 0]), Buffer.from([2, 0, 0, 0])],
      },
      { name: "terminated", dtype: "|b1", shape: [2], data: [Buffer.from([0, 1])] },
      { name: "infos", json: true, data: [Buffer.from('{"1":'), Buffer.from("{}}")] },
    ];
    const { chunks, length } = encodeBatch({ seq: 3, rows: 2, failed: [], timing: { worker_ms: 0.5 } }, fields);
    const message = Buffer.concat(chunks);
    expect(message.length).toBe(length);
    const decoded = decodeBatch(message);
    expect(decoded.fields.map((field) => field.data.toString("latin1"))).toEqual([
      "\x01\0\0\0\x02\0\0\0",
      "\0\x01",
      '{"1":{}}',
    ]);
    for (const field of decoded.fields) expect((field.data.byteOffset - message.byteOffset) % 64).toBe(0);
    expect({ ...decoded.map, timing: { ...(decoded.map.timing as object) } }).toEqual({
      seq: 3,
      rows: 2,
      failed: [],
      timing: { worker_ms: 0.5 },
    });
  });

  test("a map of any length fits before the first buffer", () => {
    for (let failed = 0; failed < 400; failed += 1) {
      const list = Array.from({ length: failed }, (_, row) => row * 1000);
      const message = step({ seq: 1, failed: list }, [actions()]);
      expect(decodeBatch(message).map.failed).toEqual(list);
    }
  });

  test("no field and empty fields are legal", () => {
    expect(decodeBatch(step({ seq: 1 }, [])).fields).toEqual([]);
    expect(decodeBatch(step({ seq: 1 }, [actions({ shape: [0], data: [] })])).fields[0]?.data.length).toBe(0);
  });
});

describe("decodeStepBatch", () => {
  test("gives count, the shape of one action and a view of the bytes", () => {
    const data = Buffer.from(new Float32Array([1, 2, 3, 4, 5, 6]).buffer);
    const message = step({ seq: 9, where: [0, 4] }, [actions({ dtype: "<f4", shape: [2, 3], data: [data] })]);
    const decoded = decodeStepBatch(message);
    expect(decoded).toEqual({ seq: 9, where: [0, 4], actions: { count: 2, dtype: "<f4", shape: [3], data } });
    expect(decoded.actions.data.buffer).toBe(message.buffer);
  });

  test.each([
    ["an empty body", Buffer.alloc(0)],
    ["a length beyond the message", Buffer.from([255, 255, 255, 255, 0x80])],
    ["a map that is a list", Buffer.from([1, 0, 0, 0, 0x90])],
    ["seq 0", step({ seq: 0 }, [actions()])],
    ["seq as text", step({ seq: "1" }, [actions()])],
    ["no seq", step({}, [actions()])],
    ["an unknown member", step({ seq: 1, admin: true }, [actions()])],
    ["a second field", step({ seq: 1 }, [actions(), actions()])],
    ["a field of another name", step({ seq: 1 }, [actions({ name: "obs" })])],
    ["an object dtype", step({ seq: 1 }, [actions({ dtype: "|O" })])],
    ["a big-endian dtype", step({ seq: 1 }, [actions({ dtype: ">i8" })])],
    ["a dtype named like a prototype's member", step({ seq: 1 }, [actions({ dtype: "<constructor" })])],
    ["no shape", step({ seq: 1 }, [{ name: "actions", dtype: "<i8", data: [Buffer.alloc(8)] }])],
    ["an empty shape", step({ seq: 1 }, [actions({ shape: [], data: [Buffer.alloc(8)] })])],
    ["fewer bytes than the shape", step({ seq: 1 }, [actions({ shape: [3] })])],
    ["a shape whose product overflows", step({ seq: 1 }, [actions({ shape: [2 ** 40, 2 ** 40] })])],
    ["a negative length", step({ seq: 1 }, [actions({ shape: [-2] })])],
    ["where with a fraction", step({ seq: 1, where: [0.5] }, [actions()])],
    ["where mixing kinds", step({ seq: 1, where: [true, 1] }, [actions()])],
  ])("refuses %s", (_name, message) => {
    expect(codeOf(() => decodeStepBatch(message))).toBe("invalid_request");
  });

  test.each([
    ["not aligned", { offset: 200, length: 16 }],
    ["beyond the end", { offset: 128, length: 1 << 20 }],
    ["inside the map", { offset: 0, length: 16 }],
    ["negative", { offset: -64, length: 16 }],
  ])("refuses a buffer that is %s", (_name, place) => {
    const map = packr.pack({ seq: 1, fields: [{ name: "actions", dtype: "<i8", shape: [2], ...place }] });
    const length = Buffer.alloc(4);
    length.writeUInt32LE(map.length);
    const message = Buffer.concat([length, map, Buffer.alloc(400)]);
    expect(codeOf(() => decodeStepBatch(message))).toBe("invalid_request");
  });
});

describe("readMsgpack", () => {
  test.each([
    [null],
    [true],
    [false],
    [0],
    [127],
    [128],
    [65_535],
    [65_536],
    [2 ** 32 - 1],
    [2 ** 40],
    [-1],
    [-32],
    [-33],
    [-129],
    [-40_000],
    [-(2 ** 40)],
    [1.5],
    [""],
    ["ü".repeat(20)],
    ["x".repeat(300)],
    ["y".repeat(70_000)],
    [Array.from({ length: 20 }, (_, i) => i)],
    [Array.from({ length: 70_000 }, () => 1)],
  ])("reads what msgpackr wrote: %s", (value) => {
    expect(readMsgpack(Buffer.from(packr.pack(value)))).toEqual(value);
  });

  test("a key __proto__ is a plain member and reaches no prototype", () => {
    const map = readMsgpack(Buffer.from([0x81, 0xa9, ...Buffer.from("__proto__"), 0x81, 0xa1, 0x78, 0x01]));
    expect(Object.getPrototypeOf(map)).toBeNull();
    expect(({} as { x?: number }).x).toBeUndefined();
  });

  test("a record extension, which msgpackr would turn into code, is refused", () => {
    const records = Buffer.from(new Packr({ structures: [] }).pack([{ a: 1 }, { a: 2 }]));
    expect(codeOf(() => readMsgpack(records))).toBe("invalid_request");
  });

  test.each([
    ["nested too deeply", Buffer.from([...Array(20).fill(0x91), 0x01])],
    ["breaking off", Buffer.from([0x82, 0xa1])],
    ["announcing four thousand million items", Buffer.from([0xdd, 255, 255, 255, 255])],
    ["with bytes after the value", Buffer.from([1, 2])],
    ["with a key twice", Buffer.from([0x82, 0xa1, 0x61, 1, 0xa1, 0x61, 2])],
    ["with a number as a key", Buffer.from([0x81, 1, 1])],
  ])("refuses a map %s", (_name, bytes) => {
    expect(codeOf(() => readMsgpack(bytes))).toBe("invalid_request");
  });
});

interface SharedCase {
  name: string;
  map: Record<string, unknown> & { fields: (Omit<BatchField, "data"> & { offset: number; length: number })[] };
  buffers: string[];
  message: string;
}

const shared: { cases: SharedCase[] } = JSON.parse(
  readFileSync(new URL("../../../vectors/batch.json", import.meta.url), "utf8"),
);

/** The map as plain objects: a decoded one has no prototypes. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

describe("batch.json", () => {
  test.each(shared.cases)("is read as the vector says: $name", ({ map: { fields, ...map }, buffers, message }) => {
    const decoded = decodeBatch(Buffer.from(message, "base64"));
    expect(plain(decoded.map)).toEqual(map);
    expect(decoded.fields.map((field) => field.data.toString("base64"))).toEqual(buffers);
    expect(decoded.fields.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual(
      fields.map(({ name, dtype = null, shape = null }) => ({ name, dtype, shape })),
    );
  });

  test.each(shared.cases)("survives being written again: $name", ({ map: { fields, ...map }, buffers }) => {
    const again = fields.map(({ offset: _, length: __, ...field }, index) => ({
      ...field,
      data: [Buffer.from(buffers[index] ?? "", "base64")],
    }));
    const decoded = decodeBatch(Buffer.concat(encodeBatch(map, again).chunks));
    expect(plain(decoded.map)).toEqual(map);
    expect(decoded.fields.map((field) => field.data.toString("base64"))).toEqual(buffers);
  });
});
