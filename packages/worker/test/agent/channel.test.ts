import { duplexPair } from "node:stream";
import { encodeFrame, FRAME_KINDS, type Frame, FrameReader } from "@sandpool/protocol";
import { expect, test } from "vitest";
import { AgentChannel } from "../../src/agent/channel.ts";
import { writeRequest } from "../../src/agent/write-request.ts";

function open() {
  const [ours, theirs] = duplexPair();
  const received: Frame[] = [];
  const reader = new FrameReader((frame) => received.push(frame));
  theirs.on("data", (chunk: Buffer) => reader.push(chunk));
  const reply = (sequence: number, head: object): void => {
    for (const chunk of encodeFrame(FRAME_KINDS.reply, sequence, head, [Buffer.from("body")])) theirs.write(chunk);
  };
  return { channel: new AgentChannel(ours), theirs, received, reply };
}

const ticks = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test.each([0, 10, 16 * 1024, 16 * 1024 + 1, 300_000])(
  "a request with a body of %i bytes is the frame that the protocol's own encoder writes",
  async (length) => {
    const [ours, theirs] = duplexPair();
    const chunks: Buffer[] = [];
    theirs.on("data", (chunk: Buffer) => chunks.push(chunk));
    const head = { op: "step", name: "naïve" };
    const body = Buffer.alloc(length, 7);
    writeRequest(ours, 42, JSON.stringify(head), body);
    const expected = Buffer.concat(encodeFrame(FRAME_KINDS.request, 42, head, [body]));
    while (Buffer.concat(chunks).length < expected.length) await ticks();
    expect(Buffer.concat(chunks).equals(expected)).toBe(true);
  },
);

test("replies find their requests by number, in whatever order they come", async () => {
  const { channel, received, reply } = open();
  const first = channel.ask({ op: "a" });
  const second = channel.ask({ op: "b" });
  while (received.length < 2) await ticks();
  reply(received[1]?.sequence ?? 0, { ok: true, of: "b" });
  reply(received[0]?.sequence ?? 0, { ok: true, of: "a" });
  expect([(await first).head.of, (await second).head.of]).toEqual(["a", "b"]);
});

test("an agent's error keeps its code, message and details; an unknown code becomes agent_failed", async () => {
  const { channel, received, reply } = open();
  const known = channel.ask({ op: "a" });
  const unknown = channel.ask({ op: "b" });
  while (received.length < 2) await ticks();
  reply(received[0]?.sequence ?? 0, {
    ok: false,
    error: { code: "environment_failed", message: "row 3", details: { row: 3 } },
  });
  reply(received[1]?.sequence ?? 0, { ok: false, error: { code: "strange", message: "what" } });
  await expect(known).rejects.toMatchObject({ code: "environment_failed", message: "row 3", details: { row: 3 } });
  await expect(unknown).rejects.toMatchObject({ code: "agent_failed", details: { received_code: "strange" } });
});

test("when the channel ends every open request and every later one is told", async () => {
  const { channel, theirs } = open();
  const waiting = channel.ask({ op: "a" });
  theirs.destroy();
  await expect(waiting).rejects.toMatchObject({ code: "pool_lost" });
  await channel.ended;
  await expect(channel.ask({ op: "b" })).rejects.toMatchObject({ code: "pool_lost" });
});

test("a reply that nobody waits for and an event are no reply to another request", async () => {
  const { channel, theirs, received, reply } = open();
  const events: unknown[] = [];
  channel.onEvent = (head) => events.push(head);
  const waiting = channel.ask({ op: "a" });
  while (received.length < 1) await ticks();
  reply(999, { ok: true });
  for (const chunk of encodeFrame(FRAME_KINDS.event, 0, { event: "progress" })) theirs.write(chunk);
  reply(received[0]?.sequence ?? 0, { ok: true, mine: true });
  expect((await waiting).head.mine).toBe(true);
  expect(events).toEqual([{ event: "progress" }]);
});

test("an agent that does not answer in time is named", async () => {
  const { channel } = open();
  await expect(channel.ask({ op: "status" }, null, 20)).rejects.toMatchObject({
    code: "deadline_passed",
    details: { operation: "status" },
  });
});
