import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeFrame, type Frame, type FrameKind, FrameReader } from "../src/index.ts";

interface VectorFrame {
  sequence: number;
  kind: FrameKind;
  head: Record<string, unknown>;
  body: string;
}
interface Vectors {
  cases: (VectorFrame & { name: string; head_text: string; frame: string })[];
  torn: { name: string; input: string; frames: VectorFrame[] }[];
}

const vectors: Vectors = JSON.parse(readFileSync(new URL("../../../vectors/frames.json", import.meta.url), "utf8"));

function readCut(input: Buffer, chunkBytes: number): VectorFrame[] {
  const frames: VectorFrame[] = [];
  const reader = new FrameReader((frame) => frames.push(describeFrame(frame)));
  for (let at = 0; at < input.length; at += chunkBytes) reader.push(input.subarray(at, at + chunkBytes));
  return frames;
}

function describeFrame({ sequence, kind, head, body }: Frame): VectorFrame {
  return { sequence, kind, head, body: body.toString("base64") };
}

describe("frames.json", () => {
  test.each(vectors.cases)("is written as the vector says: $name", ({ kind, sequence, head, body, frame }) => {
    expect(Buffer.concat(encodeFrame(kind, sequence, head, [Buffer.from(body, "base64")])).toString("base64")).toBe(
      frame,
    );
  });

  test.each(vectors.cases)(
    "is read as the vector says, whole and cut: $name",
    ({ name: _, head_text, frame, ...expected }) => {
      const input = Buffer.from(frame, "base64");
      for (const chunkBytes of [input.length, 1, 3, 23, 25, 4096]) {
        if (input.length / chunkBytes < 20_000) expect(readCut(input, chunkBytes)).toEqual([expected]);
      }
      expect(JSON.parse(head_text)).toEqual(expected.head);
    },
  );

  test.each(vectors.torn)("is found again after a fault, whole and cut: $name", ({ input, frames }) => {
    const bytes = Buffer.from(input, "base64");
    for (const chunkBytes of [bytes.length, 1, 2, 7, 64]) expect(readCut(bytes, chunkBytes)).toEqual(frames);
  });
});

test("a body is memory of its own, whatever becomes of the bytes it came in", () => {
  const chunk = Buffer.concat(encodeFrame(2, 1, { ok: true }, [Buffer.from("body")]));
  const frames: Frame[] = [];
  new FrameReader((frame) => frames.push(frame)).push(chunk);
  chunk.fill(0);
  expect(frames[0]?.body.toString()).toBe("body");
});

test("a source that reads into the reader's space writes a large body where it stays", () => {
  const sent = Buffer.concat([1, 2, 3].flatMap((n) => encodeFrame(2, n, { n }, [Buffer.alloc(150_000, n)])));
  const taken: Buffer[] = [];
  const frames: Frame[] = [];
  const reader = new FrameReader(
    (frame) => frames.push(frame),
    (bytes) => {
      const body = Buffer.alloc(bytes);
      taken.push(body);
      return body;
    },
  );
  for (let at = 0; at < sent.length; ) {
    const space = reader.space();
    const bytes = sent.copy(space, 0, at, at + 70_000);
    reader.took(bytes);
    at += bytes;
  }
  expect(frames.map(({ head }) => head.n)).toEqual([1, 2, 3]);
  for (const [index, { body }] of frames.entries()) {
    expect(body).toBe(taken[index]);
    expect(body.equals(Buffer.alloc(150_000, index + 1))).toBe(true);
  }
});

test("a head larger than the reader's own memory is read, also behind another frame", () => {
  const text = "x".repeat(200_000);
  const sent = Buffer.concat([...encodeFrame(3, 0, { small: 1 }), ...encodeFrame(2, 7, { text }, [Buffer.from("b")])]);
  for (const chunkBytes of [sent.length, 1000]) {
    expect(readCut(sent, chunkBytes).map(({ head }) => head)).toEqual([{ small: 1 }, { text }]);
  }
});

test("any sequence of frames survives any cutting", () => {
  const anyFrame = fc.record({
    sequence: fc.nat(0xffffffff),
    text: fc.string(),
    body: fc.uint8Array({ maxLength: 300 }),
  });
  const property = fc.property(fc.array(anyFrame, { maxLength: 6 }), fc.array(fc.nat(200)), (frames, cuts) => {
    const sent = frames.flatMap((f) => encodeFrame(1, f.sequence, { text: f.text }, [Buffer.from(f.body)]));
    const bytes = Buffer.concat(sent);
    const seen: { sequence: number; text: unknown; body: Uint8Array }[] = [];
    const reader = new FrameReader((f) =>
      seen.push({ sequence: f.sequence, text: f.head.text, body: new Uint8Array(f.body) }),
    );
    let at = 0;
    for (const cut of cuts) {
      reader.push(bytes.subarray(at, at + cut));
      at += Math.min(cut, bytes.length - at);
    }
    reader.push(bytes.subarray(at));
    expect(seen).toEqual(frames.map((f) => ({ ...f, body: new Uint8Array(f.body) })));
    expect(reader.skippedBytes).toBe(0);
  });
  fc.assert(property, { numRuns: 200 });
});

test("no bytes make the reader throw or stand still", () => {
  const property = fc.property(fc.array(fc.oneof(fc.uint8Array(), fc.constant(Buffer.from("SPF1")))), (chunks) => {
    const reader = new FrameReader(() => {});
    for (const chunk of chunks) reader.push(Buffer.from(chunk));
    reader.push(Buffer.alloc(32));
  });
  fc.assert(property, { numRuns: 300 });
});
