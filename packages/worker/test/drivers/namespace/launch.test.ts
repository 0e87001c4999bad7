import { spawn } from "node:child_process";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterEach, expect, test } from "vitest";
import { type Launched, waitUntilStarted } from "../../../src/drivers/namespace/launch.ts";
import { Tail } from "../../../src/drivers/tail.ts";

const folders: string[] = [];

afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true });
});

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sandpool-launch-"));
  folders.push(folder);
  return folder;
}

/** A runtime that runs until it is ended. */
function startRuntime(): Launched {
  const process = spawn("sleep", ["60"]);
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    process.once("exit", (code, signal) => resolve({ code, signal }));
  });
  return { process, channel: new PassThrough(), output: new Tail(), ended };
}

test("a pid that was written before anybody looked is found", async () => {
  const folder = await makeFolder();
  await writeFile(join(folder, "pid"), "4711");
  const runtime = startRuntime();
  expect(await waitUntilStarted(runtime, folder, new AbortController().signal)).toBe(4711);
  runtime.process.kill();
  await runtime.ended;
});

test("a pid that is moved into place later is found", async () => {
  const folder = await makeFolder();
  const runtime = startRuntime();
  const waiting = waitUntilStarted(runtime, folder, new AbortController().signal);
  await writeFile(join(folder, ".pid-new"), "4712");
  await rename(join(folder, ".pid-new"), join(folder, "pid"));
  expect(await waiting).toBe(4712);
  runtime.process.kill();
  await runtime.ended;
});

test("a runtime that ends without a pid is a failed start", async () => {
  const folder = await makeFolder();
  const runtime = startRuntime();
  runtime.process.kill();
  await expect(waitUntilStarted(runtime, folder, new AbortController().signal)).rejects.toThrow(
    "could not start the sandbox",
  );
});

test("an abort ends the wait with its reason", async () => {
  const runtime = startRuntime();
  const scope = new AbortController();
  const waiting = waitUntilStarted(runtime, await makeFolder(), scope.signal);
  scope.abort(new Error("no longer wanted"));
  await expect(waiting).rejects.toThrow("no longer wanted");
  runtime.process.kill();
  await runtime.ended;
});
