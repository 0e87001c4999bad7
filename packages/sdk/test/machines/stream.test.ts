import { createHash } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ExecStream, Sandpool } from "../../src/index.ts";
import { type CuttingProxy, startCuttingProxy } from "../support/cuttingProxy.ts";
import { useMachines } from "../support/machines.ts";

const proxy: CuttingProxy = await startCuttingProxy();
const bench = useMachines("--allow-host", `127.0.0.1:${proxy.port}`);
let cutClient: Sandpool;

beforeAll(() => {
  const { url, key } = bench().server;
  proxy.leadTo(Number(new URL(url).port));
  cutClient = new Sandpool({ url: `http://127.0.0.1:${proxy.port}`, apiKey: key });
});
afterAll(() => proxy.close());

async function collect(stream: ExecStream): Promise<{ stdout: Buffer; stderr: Buffer }> {
  const chunks: { stdout: Buffer[]; stderr: Buffer[] } = { stdout: [], stderr: [] };
  for await (const { kind, data } of stream) chunks[kind].push(data);
  return { stdout: Buffer.concat(chunks.stdout), stderr: Buffer.concat(chunks.stderr) };
}

describe("a streamed program", () => {
  test("row 8: each byte comes on its own stream, the last line without a line end too", async () => {
    const { machines, box } = bench();
    const stream = await machines.streamExec(box, { command: "printf one; printf two >&2; printf '\\377'; exit 5" });
    const { stdout, stderr } = await collect(stream);
    expect([stdout, stderr]).toEqual([Buffer.from("one\xff", "latin1"), Buffer.from("two")]);
    expect(stream.outcome).toMatchObject({ id: stream.id, exitCode: 5 });
    expect(await stream.wait()).toBe(stream.outcome);
  });

  test("row 11: a reader that is slow loses nothing of a burst", async () => {
    const { machines, box } = bench();
    const bytes = 32 * 1024 * 1024;
    const stream = await machines.streamExec(box, { command: `head -c ${bytes} /dev/urandom | tee /tmp/burst` });
    const hash = createHash("sha256");
    let first = true;
    for await (const { data } of stream) {
      // Meanwhile the program, whose pipe is full, waits.
      if (first) await machines.exec(box, { command: "sleep 0.5" });
      first = false;
      hash.update(data);
    }
    const inside = await machines.exec(box, { command: "sha256sum < /tmp/burst" });
    expect(inside.check().stdout.slice(0, 64)).toBe(hash.digest("hex"));
    expect(stream.outcome?.counts.stdout.written).toBe(bytes);
  });

  test("row 14: answers to what is written to it, and ends when its input does", async () => {
    const { machines, box } = bench();
    const stream = await machines.streamExec(box, { argv: ["cat"], stdin: true });
    const reader = stream[Symbol.asyncIterator]();
    stream.stdin.write("ping");
    expect((await reader.next()).value).toEqual({ kind: "stdout", data: Buffer.from("ping") });
    stream.stdin.end();
    expect((await reader.next()).done).toBe(true);
    expect(stream.outcome?.exitCode).toBe(0);
  });

  test("that reads no more of its input ends all the same", async () => {
    const { machines, box } = bench();
    const endless = (async function* () {
      for (;;) yield Buffer.alloc(65_536);
    })();
    const stream = await machines.streamExec(box, {
      command: "head -c 10 > /dev/null; exec 0<&-; echo done",
      stdin: endless,
    });
    expect((await collect(stream)).stdout.toString()).toBe("done\n");
    expect((await stream.wait()).exitCode).toBe(0);
  });

  test("has a terminal where one is asked for, whose size can change", async () => {
    const { machines, box } = bench();
    const stream = await machines.streamExec(box, {
      command: "trap 'stty size; exit 6' WINCH; stty size; while :; do sleep 0.05; done",
      tty: { rows: 33, columns: 101 },
      stdin: true,
    });
    let seen = "";
    for await (const { data } of stream) {
      seen += data.toString();
      if (seen === "33 101\r\n") stream.resize({ rows: 44, columns: 120 });
    }
    expect(seen).toBe("33 101\r\n44 120\r\n");
    expect(stream.outcome?.exitCode).toBe(6);
  });

  test("is told a signal, with its tree", async () => {
    const { machines, box } = bench();
    const stream = await machines.streamExec(box, { command: "echo up; sleep 555 & wait" });
    for await (const _ of stream) stream.kill("TERM");
    expect(stream.outcome).toMatchObject({ signal: "TERM", exitCode: 143, left: [] });
  });

  test("is ended at the end of its block, and one that was joined is not", async () => {
    const { machines, box } = bench();
    let id: string;
    {
      await using started = await machines.streamExec(box, { argv: ["sleep", "1000"] });
      ({ id } = started);
      await using joined = await machines.attachExec(box, id);
      expect(joined).toMatchObject({ id, pid: started.pid, state: "running" });
    }
    expect(await machines.getExec(box, id)).toMatchObject({ state: "exited", exitCode: 143 });
    const { id: other } = await machines.startExec(box, { argv: ["sleep", "1000"] });
    {
      await using _ = await machines.attachExec(box, other);
    }
    expect((await machines.getExec(box, other)).state).toBe("running");
    await machines.endExec(box, other);
  });

  test("row 20: can be joined by several, and after its end, with the output so far", async () => {
    const { machines, box } = bench();
    const { id } = await machines.startExec(box, {
      command: "echo first; until [ -e /tmp/go ]; do sleep 0.05; done; echo last",
    });
    const streams = await Promise.all([machines.attachExec(box, id), machines.attachExec(box, id)]);
    await machines.files.write(box, "/tmp/go", "");
    for (const stream of [...streams, await machines.attachExec(box, id)]) {
      expect((await collect(stream)).stdout.toString()).toBe("first\nlast\n");
    }
  });
});

describe("a stream whose connection breaks", () => {
  test("goes on where it was: no byte twice, none missing", async () => {
    const { machines, box } = bench();
    const stream = await cutClient.machines.streamExec(box, {
      command: "seq 1 1000; until [ -e /tmp/broken ]; do sleep 0.05; done; seq 1001 2000",
    });
    let seen = "";
    for await (const { data } of stream) {
      seen += data.toString();
      if (!seen.endsWith("\n1000\n")) continue;
      proxy.cut();
      await machines.files.write(box, "/tmp/broken", "");
    }
    expect(seen).toBe(`${Array.from({ length: 2000 }, (_, index) => index + 1).join("\n")}\n`);
    expect(stream.outcome?.exitCode).toBe(0);
  });

  test("and that cannot be continued without a hole says so; the program lives on", async () => {
    const { machines, box } = bench();
    const stream = await cutClient.machines.streamExec(box, { argv: ["cat"], stdin: true });
    stream.stdin.write("x");
    for await (const _ of stream) break;
    proxy.cut();
    const end = stream.wait();
    await expect(end).rejects.toMatchObject({ code: "connection_failed", details: { exec: stream.id } });
    expect((await machines.getExec(box, stream.id)).state).toBe("running");
    await machines.endExec(box, stream.id);
  });
});
