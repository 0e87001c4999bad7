import { spawn } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import { afterEach, expect, test, vi } from "vitest";
import { openChannel, readInto } from "../../src/drivers/channel.ts";

afterEach(() => {
  vi.unstubAllEnvs();
});

/** Copies what it reads from descriptor 3 back to it until the end. */
async function openEcho(): Promise<{ channel: Duplex; kind: "socket" | "pipe" }> {
  const ends = await openChannel();
  const program = "const channel = new (require('node:net').Socket)({ fd: 3 }); channel.pipe(channel);";
  const echo = spawn(process.execPath, ["-e", program], { stdio: ["ignore", "ignore", "inherit", ends.childEnd] });
  return { channel: ends.take(echo), kind: ends.childEnd === "pipe" ? "pipe" : "socket" };
}

/** A sink of one buffer that remembers whether bytes came in its own memory. */
class Collected {
  readonly memory = Buffer.alloc(400_000);
  filledBytes = 0;
  copied = 0;

  space(): Buffer {
    return this.memory.subarray(this.filledBytes);
  }

  took(bytes: number): void {
    this.filledBytes += bytes;
  }

  push(bytes: Buffer): void {
    this.copied += bytes.copy(this.memory, this.filledBytes);
    this.filledBytes += bytes.length;
  }
}

const sent = Buffer.from(Array.from({ length: 300_000 }, (_, index) => (index * 7) & 255));

test.each(["socket", "pipe"] as const)("what a child writes to its descriptor 3 reaches the sink: %s", async (kind) => {
  if (kind === "pipe") vi.stubEnv("TMPDIR", "/nowhere");
  const { channel, kind: made } = await openEcho();
  expect(made).toBe(kind);
  const collected = new Collected();
  readInto(channel, collected);
  channel.write(sent);
  while (collected.filledBytes < sent.length) await new Promise((resolve) => setImmediate(resolve));
  expect(collected.memory.subarray(0, sent.length).equals(sent)).toBe(true);
  // A socket reads into the sink's memory but for the read that was under way when the sink came.
  if (kind === "socket") expect(collected.copied).toBeLessThanOrEqual(65_536);
  const closed = new Promise((resolve) => channel.once("close", resolve));
  channel.destroy();
  await closed;
});

test("without a sink the channel is a stream as any other, and what came before a sink is not lost", async () => {
  const { channel } = await openEcho();
  channel.write("first");
  const first = await new Promise((resolve) => channel.once("readable", () => resolve(String(channel.read()))));
  expect(first).toBe("first");
  channel.write("second");
  await new Promise((resolve) => channel.once("readable", resolve));
  const collected = new Collected();
  readInto(channel, collected);
  expect(collected.memory.toString("latin1", 0, collected.filledBytes)).toBe("second");
  channel.destroy();
});

test("no folder is left of the meeting of the two ends", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sandpool-test-"));
  vi.stubEnv("TMPDIR", folder);
  const { channel, kind } = await openEcho();
  channel.destroy();
  expect(kind).toBe("socket");
  rmdirSync(folder);
});
