import { createHash } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { describe, expect, test } from "vitest";
import { readFrames, sha256, useMachines } from "../machineServer.ts";
import { until } from "../startTestServer.ts";

const server = useMachines();
const path = () => `/v1/machines/${server().box}/exec`;

async function states(): Promise<Record<string, string>> {
  const { execs } = (await server().api.send({ path: path() })).json as { execs: { id: string; state: string }[] };
  return Object.fromEntries(execs.map(({ id, state }) => [id, state]));
}

async function isAlive(marker: string): Promise<boolean> {
  return (await server().run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes(marker);
}

describe("row 19, row 20: a program in the background", () => {
  test("has a pid and an id, is signalled, waited for, and listed with its exit code after its end", async () => {
    const begun = await server().exec({
      command: "trap 'echo got it; exit 9' INT; while :; do sleep 0.05; done",
      detach: true,
    });
    expect(Object.keys(begun)).toEqual(["id", "pid"]);
    const running = (await server().api.send({ path: `${path()}/${begun.id}` })).json;
    expect(running).toMatchObject({ id: begun.id, state: "running", pid: begun.pid, exit_code: null });
    const waited = (await server().api.send({ path: `${path()}/${begun.id}?wait=0.2` })).json;
    expect(waited.state).toBe("running");
    const end = server().api.send({ path: `${path()}/${begun.id}?wait=30` });
    await until(async () => (await server().run(`grep SigCgt /proc/${begun.pid}/status`)).trim().endsWith("2"));
    const signal = await server().api.post(`${path()}/${begun.id}/signal`, { signal: "INT", tree: false });
    expect(signal.json).toEqual({ signalled: 1 });
    expect((await end).json).toMatchObject({ state: "exited", exit_code: 9, stdout: "got it\n" });
    const quiet = (await server().api.send({ path: `${path()}/${begun.id}?output=false` })).json;
    expect([quiet.exit_code, quiet.stdout, quiet.stdout_bytes]).toEqual([9, undefined, 7]);
    expect(await states()).toMatchObject({ [begun.id]: "exited" });
    const { execs } = (await server().api.send({ path: path() })).json as { execs: Record<string, unknown>[] };
    const listed = execs.find(({ id }) => id === begun.id);
    expect(Math.abs(Date.parse(String(listed?.started_at)) - Date.now())).toBeLessThan(60_000);
    expect(listed).toMatchObject({ exit_code: 9, signal: null, argv: ["/bin/bash", "-c", expect.any(String)] });
  });

  test("what is not known is said to be so, to its owner alone", async () => {
    for (const [method, tail] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/signal"],
    ] as const) {
      const body = method === "POST" ? { body: "{}" } : {};
      const got = await server().api.send({ method, path: `${path()}/x0000000000000000${tail}`, ...body });
      expect([method, got.status, got.json.error?.code]).toEqual([method, 404, "exec_not_found"]);
      const other = await server().api.send({
        method,
        path: `${path()}/x0000000000000000${tail}`,
        ...body,
        key: server().otherKey,
      });
      expect([method, other.json.error?.code]).toEqual([method, "machine_not_found"]);
    }
    const signal = await server().exec({ command: "sleep 60", detach: true });
    const odd = await server().api.post(`${path()}/${signal.id}/signal`, { signal: "NOSUCH" });
    expect([odd.status, odd.json.error?.code]).toEqual([400, "invalid_request"]);
    await server().api.send({ method: "DELETE", path: `${path()}/${signal.id}` });
    expect(await states()).toMatchObject({ [signal.id]: "exited" });
  });
});

describe("a client that goes away", () => {
  test("takes its foreground exec with it, whole", async () => {
    for (const stream of [false, true]) {
      const socket = connect(server().api.port, "127.0.0.1");
      const body = JSON.stringify({ command: "sleep 8881 & sleep 8881", stream });
      socket.write(
        `POST ${path()} HTTP/1.1\r\nHost: 127.0.0.1:${server().api.port}\r\nAuthorization: Bearer ${server().api.running.key}\r\n` +
          `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      await until(() => isAlive("sleep 8881"));
      socket.destroy();
      await until(async () => !(await isAlive("sleep 8881")));
    }
  });

  test("with an Idempotency-Key comes back to it, and gets the outcome of the one run", async () => {
    const headers = { "idempotency-key": "once" };
    const request = { command: "echo run >> /tmp/runs; sleep 1; cat /tmp/runs" };
    const first = await server().open(path(), {
      method: "POST",
      headers,
      body: JSON.stringify({ ...request, stream: true }),
    });
    await once(first, "data");
    first.destroy();
    const other = await server().tryExec(request, { headers });
    expect([other.status, other.json.error?.code]).toEqual([409, "conflict"]);
    const [one, two] = await Promise.all(
      [1, 2].map(async () =>
        readFrames(
          await server().open(path(), { method: "POST", headers, body: JSON.stringify({ ...request, stream: true }) }),
        ),
      ),
    );
    for (const frames of [one, two]) {
      expect(frames?.find(({ kind }) => kind === 1)?.bytes.toString()).toBe("run\n");
      expect(JSON.parse(String(frames?.at(-1)?.bytes))).toMatchObject({ state: "exited", exit_code: 0 });
    }
  });

  test("ends what its key began, before or after it began", async () => {
    const headers = { "idempotency-key": "to-be-ended" };
    const outcome = server().exec({ command: "sleep 8882" }, { headers });
    await until(() => isAlive("sleep 8882"));
    const ended = await server().api.send({ method: "DELETE", path: path(), headers });
    expect(ended.json).toEqual({ id: (await outcome).id, deleted: true });
    expect(await outcome).toMatchObject({ signal: "TERM" });
    const early = { "idempotency-key": "ended-early" };
    await server().api.send({ method: "DELETE", path: path(), headers: early });
    const late = await server().tryExec({ command: "touch /tmp/late" }, { headers: early });
    expect(late.json.error?.code).toBe("creation_aborted");
    expect((await server().exec({ command: "ls /tmp/late" })).exit_code).not.toBe(0);
    expect((await server().api.send({ method: "DELETE", path: path() })).json.error?.code).toBe("invalid_request");
  });
});

describe("a streamed exec", () => {
  test("row 8, row 11: every byte comes, in order, each stream apart, the outcome last", async () => {
    const size = 32 * 2 ** 20;
    const command = `echo err >&2; head -c ${size} /dev/zero | tr '\\0' z; exit 4`;
    const reply = await server().open(path(), { method: "POST", body: JSON.stringify({ command, stream: true }) });
    expect(reply.headers["content-type"]).toBe("application/vnd.sandpool.exec");
    const frames = await readFrames(reply);
    const join = (kind: number) =>
      Buffer.concat(frames.filter((frame) => frame.kind === kind).map(({ bytes }) => bytes));
    expect(JSON.parse(String(frames[0]?.bytes))).toEqual({
      id: expect.any(String),
      pid: expect.any(Number),
      dropped: { stdout: 0, stderr: 0 },
    });
    expect(sha256(join(1))).toBe(sha256(Buffer.alloc(size, "z")));
    expect(join(2).toString()).toBe("err\n");
    const last = JSON.parse(String(frames.at(-1)?.bytes));
    expect(last).toMatchObject({ exit_code: 4, stdout_bytes: size, stderr_bytes: 4 });
    expect([frames.at(-1)?.kind, "stdout" in last]).toEqual([3, false]);
  });

  test("class 33: a client that never reads holds the program up, and the server keeps a window of it", async () => {
    const before = process.memoryUsage.rss();
    const replies = await Promise.all(
      Array.from({ length: 8 }, () =>
        server().open(path(), { method: "POST", body: JSON.stringify({ command: "yes", stream: true }) }),
      ),
    );
    for (const reply of replies) reply.pause();
    // Time for a few gigabytes, were they not held up.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    expect(process.memoryUsage.rss() - before).toBeLessThan(96 * 2 ** 20);
    for (const reply of replies) reply.destroy();
    await until(async () => !Object.values(await states()).includes("running"));
  });

  test("row 11: a shim that is killed on the way costs no byte", async () => {
    const program =
      "import sys, time\nfor n in range(3000): sys.stdout.write(f'{n:0999}\\n'); sys.stdout.flush(); time.sleep(0.0005)";
    const body = JSON.stringify({ argv: ["/usr/bin/python3", "-c", program], stream: true });
    const reply = await server().open(path(), { method: "POST", body });
    const frames = readFrames(reply);
    const folder = createHash("sha256").update(server().api.dataDir).digest("hex").slice(0, 12);
    const record = readFileSync(`/run/sandpool/${folder}/machines/${server().box}/shim.pid`, "utf8");
    await once(reply, "data");
    process.kill((JSON.parse(record) as { pid: number }).pid, "SIGKILL");
    const expected = Array.from({ length: 3000 }, (_, n) => `${String(n).padStart(999, "0")}\n`).join("");
    const stdout = (await frames).filter(({ kind }) => kind === 1).map(({ bytes }) => bytes);
    expect(JSON.parse(String((await frames).at(-1)?.bytes))).toMatchObject({
      exit_code: 0,
      stdout_bytes: expected.length,
    });
    expect(sha256(Buffer.concat(stdout))).toBe(sha256(expected));
  });

  test("a machine that ends says so at the end of the body", async () => {
    const machine = await server().newMachine();
    const body = JSON.stringify({ command: "echo begun; sleep 60", stream: true });
    const reply = await server().open(`/v1/machines/${machine}/exec`, { method: "POST", body });
    const frames = readFrames(reply);
    const waiting = server().tryExec({ command: "sleep 60" }, { machine });
    await until(async () => {
      const { execs } = (await server().api.send({ path: `/v1/machines/${machine}/exec` })).json as {
        execs: unknown[];
      };
      return execs.length === 2;
    });
    await server().api.send({ method: "DELETE", path: `/v1/machines/${machine}` });
    const codes = ["machine_lost", "machine_state"];
    expect(codes).toContain(JSON.parse(String((await frames).at(-1)?.bytes)).error.code);
    expect(codes).toContain((await waiting).json.error?.code);
  });
});
