import { decodeActions, decodeBatch } from "@sandpool/protocol";
import { expect, test } from "vitest";
import { makeResets, makeSteps } from "../../src/stream/entries.ts";
import { packEntries } from "../../src/stream/pack.ts";

const steps = (actions: Parameters<typeof makeSteps>[0], where: number[]) => makeSteps(actions, where, 9, null);

test("steps with arrays of one dtype and shape are one binary message", () => {
  const entries = [steps(Int32Array.of(10), [1]), steps(["text"], [5]), steps(Int32Array.of(20, 30), [2, 0])];
  const [numbers, texts] = packEntries(entries, 7, 3);
  const { map, fields } = decodeBatch(numbers?.data as Buffer);
  expect(map).toEqual({ number: 7, op: "step", where: [1, 0, 2], received: 3 });
  expect(decodeActions(fields)).toMatchObject({ dtype: "<i4", count: 3, shape: [] });
  expect([...new Int32Array(Uint8Array.from(fields[0]?.data ?? []).buffer)]).toEqual([10, 30, 20]);
  expect(JSON.parse(texts?.data as string)).toEqual({
    number: 8,
    op: "step",
    where: [5],
    received: 3,
    actions: ["text"],
  });
});

test("resets are one message with a seed and options a row, but one with a whole number as its seed stays alone", () => {
  const entries = [
    makeResets({ where: [1] }, 9),
    makeResets({ where: [3, 2], seed: [33, 22], options: { task: 1 } }, 9),
    makeResets({ where: [4, 5], seed: 40 }, 9),
    makeResets({ where: [6], hard: true }, 9),
  ];
  const messages = packEntries(entries, 1, 0).map(({ data }) => JSON.parse(data as string));
  const head = { op: "reset", received: 0 };
  expect(messages).toEqual([
    {
      ...head,
      number: 1,
      where: [1, 2, 3],
      seed: [null, 22, 33],
      options: [null, { task: 1 }, { task: 1 }],
      hard: false,
    },
    { ...head, number: 2, where: [4, 5], seed: 40, options: null, hard: false },
    { ...head, number: 3, where: [6], seed: null, options: null, hard: true },
  ]);
});
