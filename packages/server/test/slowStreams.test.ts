import { createConnection, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { FrameProgress } from "../src/stream/frameProgress.ts";
import { startTestServer, type TestServer, until } from "./startTestServer.ts";
import type { TestStream } from "./testStream.ts";

const LIMITS = { headersTimeoutMs: 400, bodyIdleMs: 150, requestTimeoutMs: 400 };
const TEXT = 0x81;
const FIRST_FRAGMENT = 0x01;
const LAST_FRAGMENT = 0x80;
const PING = 0x89;

/** One frame of a client. A mask of zeros leaves the payload as it is. */
function frame(first: number, payload: string): Buffer {
  const { length } = Buffer.from(payload);
  const head = length < 126 ? [first, 0x80 | length] : [first, 0x80 | 126, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), Buffer.from(payload)]);
}

function step(number: number): string {
  return JSON.stringify({ number, op: "step", where: [0], actions: [1] });
}

interface Raw {
  socket: Socket;
  stream: TestStream;
  /** All that came so far. */
  text(): string;
}

async function openRaw(): Promise<Raw> {
  const server: TestServer = await startTestServer({ limits: LIMITS });
  const id = await server.createPool();
  const socket = createConnection(server.port, "127.0.0.1").on("error", () => {});
  let text = "";
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  const lines = [
    `GET /v1/pools/${id}/stream?session=slow HTTP/1.1`,
    `Host: 127.0.0.1:${server.port}`,
    `Authorization: Bearer ${server.running.key}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  await until(() => text.includes('"next_result":1'));
  const stream = server.worker.live.get(id)?.pool.stream as TestStream;
  return { socket, stream, text: () => text };
}

/** Waits for the server's close frame: its code and reason. */
async function closing({ socket, text: textNow }: Raw): Promise<[code: number, reason: string]> {
  await until(() => /\x88.{18}$/s.test(textNow()) || socket.closed);
  socket.destroy();
  const text = textNow();
  const at = text.lastIndexOf("\x88");
  const bytes = Buffer.from(text.slice(at), "latin1");
  return [bytes.readUInt16BE(2), bytes.subarray(4).toString()];
}

describe("a stream is closed with 1008 when its client began a message", () => {
  const whole = frame(TEXT, step(1));
  test.each([
    ["and no more than half of a frame's head came", whole.subarray(0, 3)],
    ["and its payload stands still", whole.subarray(0, 20)],
    ["and its last fragment never comes", frame(FIRST_FRAGMENT, '{"number":1')],
    ["and only pings come between its fragments", Buffer.concat([frame(FIRST_FRAGMENT, "{"), frame(PING, "p")])],
    ["right behind one that was whole", Buffer.concat([whole, whole.subarray(0, 9)])],
  ])("%s", async (_, bytes) => {
    const raw = await openRaw();
    const { socket, stream, text } = raw;
    socket.write(bytes);
    expect(await closing(raw)).toEqual([1008, "request_timeout"]);
    expect(text()).toContain("stood still for 150 ms");
    expect(stream.detached).toBe(1);
    expect(stream.taken.length).toBe(bytes.length > whole.length ? 1 : 0);
  });

  test("and it drips for longer than a request may take", async () => {
    const raw = await openRaw();
    const { socket, text } = raw;
    socket.write(frame(TEXT, step(1)).subarray(0, 8));
    const timer = setInterval(() => socket.write(" "), 20);
    expect(await closing(raw)).toEqual([1008, "request_timeout"]);
    clearInterval(timer);
    expect(text()).toContain("is not whole after 400 ms");
  });
});

test("a stream stays open between whole messages, in fragments too, however long nothing comes", async () => {
  const { socket, stream, text } = await openRaw();
  const parts = [step(2).slice(0, 9), step(2).slice(9)] as [string, string];
  for (const bytes of [
    frame(TEXT, step(1)),
    frame(PING, ""),
    Buffer.concat([frame(FIRST_FRAGMENT, parts[0]), frame(PING, "p"), frame(LAST_FRAGMENT, parts[1])]),
  ]) {
    socket.write(bytes);
    await new Promise((resolve) => setTimeout(resolve, 2 * LIMITS.requestTimeoutMs));
  }
  socket.write(frame(TEXT, step(3)));
  await until(() => stream.taken.length === 3);
  expect(text()).not.toContain("request_timeout");
  socket.destroy();
});

test("whether a message is under way is known after every byte of any frames", () => {
  const frames = [
    frame(TEXT, ""),
    frame(PING, "ping"),
    frame(TEXT, "a".repeat(125)),
    frame(TEXT, "b".repeat(126)),
    frame(FIRST_FRAGMENT, "c".repeat(300)),
    frame(PING, ""),
    frame(0x00, ""),
    frame(LAST_FRAGMENT, "d"),
    Buffer.concat([Buffer.from([0x82, 0xff, 0, 0, 0, 0, 0, 1, 0x11, 0x70, 1, 2, 3, 4]), Buffer.alloc(70_000)]),
  ];
  const bytes = Buffer.concat(frames);
  const ends = new Set<number>();
  let end = 0;
  for (const [index, { length }] of frames.entries()) {
    end += length;
    if (index < 4 || index > 6) ends.add(end);
  }
  const progress = new FrameProgress();
  for (let at = 0; at < bytes.length; at += 1) {
    const ended = progress.feed(bytes.subarray(at, at + 1));
    if (ended !== ends.has(at + 1) || progress.isInMessage === ends.has(at + 1)) expect.fail(`wrong after byte ${at}`);
  }
  for (const size of [2, 7, 131, 4_096, bytes.length]) {
    const chunked = new FrameProgress();
    for (let at = 0; at < bytes.length; at += size) {
      const to = Math.min(at + size, bytes.length);
      const ended = chunked.feed(bytes.subarray(at, to));
      expect([size, to, ended]).toEqual([size, to, [...ends].some((place) => place > at && place <= to)]);
      expect([size, to, chunked.isInMessage]).toEqual([size, to, !ends.has(to)]);
    }
  }
});
