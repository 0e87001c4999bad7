import { Compile } from "typebox/compile";
import { describe, expect, test } from "vitest";
import {
  CreatePoolInput,
  CreatePoolRequest,
  fillCreateDefaults,
  formatSize,
  isId,
  makeId,
  NAME_PATTERN,
  parseSizeBytes,
  ResetRequest,
  SandpoolError,
} from "../src/index.ts";

const minimal = { archive: "a".repeat(64), entry: "env.py", n: 2 };
const input = Compile(CreatePoolInput);

describe("a create request", () => {
  test("needs archive, entry and n only, and the defaults complete it", () => {
    expect(input.Check(minimal)).toBe(true);
    const filled = fillCreateDefaults(minimal);
    expect(Compile(CreatePoolRequest).Check(filled)).toBe(true);
    expect(filled).toMatchObject({ memory: "2GiB", step_timeout: 30, seeds: "derived", config: null, lease: 600 });
  });

  test("keeps what was given, null included", () => {
    expect(fillCreateDefaults({ ...minimal, seed: 7, config: [1], env: { A: "b" } })).toMatchObject({
      seed: 7,
      config: [1],
      env: { A: "b" },
    });
  });

  test("two requests never share a default object", () => {
    expect(fillCreateDefaults(minimal).env).not.toBe(fillCreateDefaults(minimal).env);
  });

  test.each([
    ["no archive", { entry: "env.py", n: 1 }],
    ["n of 0", { ...minimal, n: 0 }],
    ["a fractional n", { ...minimal, n: 1.5 }],
    ["an unknown member", { ...minimal, admin: true }],
    ["an own member __proto__", JSON.parse(`{"archive":"${minimal.archive}","entry":"e","n":1,"__proto__":{}}`)],
    ["a name with capitals", { ...minimal, name: "Pool" }],
    ["a name shaped like an id", { ...minimal, name: makeId("pool") }],
    ["a variable name with =", { ...minimal, env: { "A=B": "c" } }],
    ["an archive that is a path", { ...minimal, archive: "../../etc/passwd" }],
    ["a timeout of 0", { ...minimal, step_timeout: 0 }],
    ["an autoreset of another word", { ...minimal, autoreset: "sometimes" }],
  ])("is refused with %s", (_name, request) => {
    expect(input.Check(request)).toBe(false);
  });
});

test("a reset's seeds may hold null, and nothing beyond 2^53-1", () => {
  const reset = Compile(ResetRequest);
  expect(reset.Check({ seq: 1, seed: [1, null, 2 ** 53 - 1] })).toBe(true);
  expect(reset.Check({ seq: 1, seed: 2 ** 53 })).toBe(false);
  expect(reset.Check({ seq: 0 })).toBe(false);
});

describe("sizes", () => {
  test.each([
    ["2GiB", 2_147_483_648],
    ["2 GiB", 2_147_483_648],
    ["1.5GiB", 1_610_612_736],
    ["512MiB", 536_870_912],
    ["1GB", 1_000_000_000],
    ["10", 10],
    [4096, 4096],
    ["1KiB", 1024],
  ])("%s is %d bytes", (size, bytes) => {
    expect(parseSizeBytes(size)).toBe(bytes);
  });

  test.each([
    ["2gib"],
    ["-1"],
    ["0"],
    [0],
    [-5],
    [1.5],
    [Number.NaN],
    [""],
    ["GiB"],
    ["1e9"],
    ["9999999999 TiB"],
    ["1 constructor"],
  ])("%s is refused, naming what was received", (size) => {
    expect(() => parseSizeBytes(size, "memory")).toThrow(/^memory is /);
  });

  test("are shown in the largest unit that fits", () => {
    expect([0, 512, 1024, 1536, 2 ** 31].map(formatSize)).toEqual(["0B", "512B", "1KiB", "1.5KiB", "2GiB"]);
  });
});

test("ids have one length, differ, and are never names", () => {
  const ids = new Set(Array.from({ length: 1000 }, () => makeId("pool")));
  expect(ids.size).toBe(1000);
  for (const id of ids) {
    expect(id).toHaveLength(25);
    expect(isId("pool", id)).toBe(true);
    expect(new RegExp(NAME_PATTERN).test(id)).toBe(false);
  }
  expect(isId("key", makeId("pool"))).toBe(false);
});

test("an error survives the wire, and an unknown code is kept in its details", () => {
  const error = new SandpoolError("pool_busy", "batch 7 runs", { hint: "wait", details: { seq: 7 } });
  expect(SandpoolError.fromWire(error.toWire().error)).toMatchObject({
    code: "pool_busy",
    hint: "wait",
    details: { seq: 7 },
  });
  expect(error.status).toBe(409);
  expect(SandpoolError.fromWire({ code: "toString", message: "x" })).toMatchObject({
    code: "internal",
    details: { received_code: "toString" },
  });
});
