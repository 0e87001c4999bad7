import { type ChildProcess, spawn } from "node:child_process";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { Sandpool } from "../../src/index.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cuttingProxy.ts";
import { COMMAND, ended, firstLine, startServer, type TestServer } from "../support/server.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 180_000 });

// Clients reach each server of the data folder at this one address.
let proxy: CuttingProxy;
let first: TestServer;
let second: ChildProcess;
let client: Sandpool;

beforeAll(async () => {
  proxy = await startCuttingProxy();
  first = await startServer("--allow-host", `127.0.0.1:${proxy.port}`);
  proxy.leadTo(Number(new URL(first.url).port));
  client = new Sandpool({ url: `http://127.0.0.1:${proxy.port}`, apiKey: first.key });
  await client.machines.create({ name: "box", driver: "namespace", isolated: true });
});
afterAll(async () => {
  await client.machines.delete("box");
  if (second !== undefined) await ended(second, () => second.kill("SIGTERM"));
  await first.stop();
  proxy.close();
});

async function restartServer(): Promise<void> {
  await ended(first.process, () => first.process.kill("SIGKILL"));
  const options = ["--listen", "127.0.0.1:0", "--json", "--log-level", "warn"];
  const allowed = ["--allow-host", `127.0.0.1:${proxy.port}`];
  second = spawn(COMMAND, ["up", ...options, ...allowed], { env: first.variables });
  const { url } = JSON.parse(await firstLine(second)) as { url: string };
  proxy.leadTo(Number(new URL(url).port));
}

test("an exec and a stream go on over a server that is killed and started again: each runs once, no byte is lost", async () => {
  const { machines } = client;
  const command = "echo x >> /tmp/runs; until [ -e /tmp/go ]; do sleep 0.05; done; wc -l < /tmp/runs";
  const running = machines.exec("box", { command });
  const stream = await machines.streamExec("box", {
    command: "echo before; until [ -e /tmp/go ]; do sleep 0.05; done; echo after",
  });
  await machines.exec("box", { command: "until [ -e /tmp/runs ]; do sleep 0.05; done" });
  let seen = "";
  for await (const { data } of stream) {
    seen += data.toString();
    if (seen !== "before\n") continue;
    await restartServer();
    await machines.files.write("box", "/tmp/go", "");
  }
  expect(seen).toBe("before\nafter\n");
  expect((await running).check().stdout).toBe("1\n");
});
