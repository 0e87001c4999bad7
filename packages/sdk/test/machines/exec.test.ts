import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ArgumentError, ConnectionError, ExecFailedError, NotFoundError, Sandpool } from "../../src/index.ts";
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

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

describe("a program that is run to its end", () => {
  test("gives its exit code and exactly what it wrote, bytes that are no UTF-8 too", async () => {
    const { machines, box } = bench();
    const outcome = await machines.exec(box, { argv: ["printf", "a\\377b\\n\\0"] });
    expect(outcome.stdoutBytes).toEqual(Buffer.from([0x61, 0xff, 0x62, 0x0a, 0]));
    expect(outcome.stdout).toBe("a\ufffdb\n\0");
    const failed = await machines.exec(box, { command: "printf out; printf err >&2; exit 7" });
    expect(failed).toMatchObject({ exitCode: 7, signal: null, ok: false, stdout: "out", stderr: "err" });
  });

  test("check throws with the outcome and the escaped end of its words", async () => {
    const { machines, box } = bench();
    const outcome = await machines.exec(box, { command: "printf 'a\\033[2J' >&2; exit 3" });
    const error = (() => {
      try {
        return outcome.check();
      } catch (caught) {
        return caught;
      }
    })();
    expect(error).toBeInstanceOf(ExecFailedError);
    expect(error).toMatchObject({ code: "exec_failed", outcome, message: expect.stringContaining("exit code 3") });
    expect((error as Error).message).toContain("a\\x1b[2J");
    expect((await machines.exec(box, { command: "true" })).check().exitCode).toBe(0);
  });

  test("row 22: arguments, variables and folder reach it as they are, without a shell", async () => {
    const { machines, box } = bench();
    const awkward = `it's "$HOME" \`id\` ; rm * \n\\`;
    const outcome = await machines.exec(box, {
      argv: ["sh", "-c", 'printf "%s|%s|%s" "$1" "$V" "$PWD"', "sh", awkward],
      environment: { V: awkward },
      cwd: "/usr",
    });
    expect(outcome.stdout).toBe(`${awkward}|${awkward}|/usr`);
  });

  test("row 6: what it wrote before its timeout is there", async () => {
    const { machines, box } = bench();
    const outcome = await machines.exec(box, { command: "echo begun; sleep 1000", timeoutSeconds: 0.5 });
    expect(outcome).toMatchObject({ timedOut: true, stdout: "begun\n", ok: false });
    expect(() => outcome.check()).toThrow("timeout");
  });

  test("row 21: a signal is told, as 128 and its number too", async () => {
    const { machines, box } = bench();
    expect(await machines.exec(box, { command: "kill -9 $$" })).toMatchObject({ exitCode: 137, signal: "KILL" });
  });

  test("row 10: beyond what is kept, head and tail stand and the rest is counted", async () => {
    const { machines, box } = bench();
    const written = 20_000_000;
    const outcome = await machines.exec(box, { command: `printf A; head -c ${written - 2} /dev/zero; printf Z` });
    const { stdout: counts } = outcome.counts;
    expect(outcome.truncated).toBe(true);
    expect(counts.written).toBe(written);
    expect(outcome.stdoutBytes.length + counts.dropped).toBe(written);
    expect([outcome.stdoutBytes[0], outcome.stdoutBytes.at(-1)]).toEqual([0x41, 0x5a]);
    expect(counts.head).toBeGreaterThan(0);
  });

  test.each([
    ["text", "line\n", Buffer.from("line\n")],
    ["bytes", Buffer.from([0, 255, 10]), Buffer.from([0, 255, 10])],
    ["nothing", undefined, Buffer.alloc(0)],
  ])("row 13: standard input of %s is all it reads", async (_name, stdin, expected) => {
    const { machines, box } = bench();
    expect((await machines.exec(box, { argv: ["cat"], stdin })).stdoutBytes).toEqual(expected);
  });

  test("row 15: standard input of any size arrives whole, its last byte before the end", async () => {
    const { machines, box } = bench();
    const pieces = Array.from({ length: 48 }, () => randomBytes(512 * 1024));
    const outcome = await machines.exec(box, { argv: ["sha256sum"], stdin: Readable.from(pieces) });
    expect(outcome.check().stdout.slice(0, 64)).toBe(sha256(Buffer.concat(pieces)));
  });

  test("that cannot be started, or whose options are wrong, is an error that says which", async () => {
    const { machines, box } = bench();
    const missing = machines.exec(box, { argv: ["no-such-program"] });
    await expect(missing).rejects.toMatchObject({ code: "exec_failed", details: { what: "program" }, outcome: null });
    await expect(missing).rejects.toBeInstanceOf(ExecFailedError);
    await expect(machines.exec(box, { command: "a", argv: ["a"] })).rejects.toBeInstanceOf(ArgumentError);
    await expect(machines.exec(box, { comand: "a" } as never)).rejects.toThrow('"comand"');
    await expect(machines.exec("nowhere", { command: "a" })).rejects.toBeInstanceOf(NotFoundError);
  });

  test("runs once where its answer is lost: the same request joins it", async () => {
    const { machines, box } = bench();
    const running = cutClient.machines.exec(box, { command: "echo once >> /tmp/runs; sleep 1; wc -l < /tmp/runs" });
    await machines.exec(box, { command: "until [ -e /tmp/runs ]; do sleep 0.05; done" });
    proxy.cut();
    expect((await running).check().stdout).toBe("1\n");
  });

  test("ends inside, with what it started, when its wait is aborted", async () => {
    const { machines, box } = bench();
    const abort = new AbortController();
    const command = "sleep 4321 & sleep 4321";
    const running = machines.exec(box, { command, signal: abort.signal });
    await machines.exec(box, { command: 'until [ "$(pgrep -cx sleep)" -ge 2 ]; do read -t 0.05 < /dev/zero; done' });
    abort.abort(new Error("enough"));
    await expect(running).rejects.toThrow("enough");
    const [ended] = (await machines.listExecs(box)).filter(({ argv }) => argv.at(-1) === command);
    await machines.getExec(box, String(ended?.id), { waitSeconds: 30 });
    expect((await machines.exec(box, { command: "pgrep -cx sleep" })).stdout).toBe("0\n");
  });

  test("is an error at once where no server answers", async () => {
    const nobody = new Sandpool({ url: "http://127.0.0.1:9", apiKey: "sp_none" });
    await expect(nobody.machines.exec("box", { command: "true" })).rejects.toBeInstanceOf(ConnectionError);
  });
});

describe("a program that runs by itself", () => {
  test("rows 18, 19: is listed with its pid, can be signalled, and its outcome with its output is kept", async () => {
    const { machines, box } = bench();
    const { id, pid } = await machines.startExec(box, {
      command: "trap 'echo told; exit 4' USR1; echo up; while :; do sleep 0.05; done",
    });
    expect(await machines.listExecs(box)).toContainEqual(expect.objectContaining({ id, pid, state: "running" }));
    const stream = await machines.attachExec(box, id);
    for await (const { data } of stream) if (data.toString() === "up\n") break;
    stream.close();
    expect(await machines.getExec(box, id)).toMatchObject({ state: "running", exitCode: null });
    expect(await machines.signalExec(box, id, "USR1", { tree: false })).toBe(1);
    const outcome = await machines.getExec(box, id, { waitSeconds: 30, output: true });
    expect(outcome).toMatchObject({ state: "exited", exitCode: 4, stdout: "up\ntold\n" });
  });

  test("is ended with all that it started", async () => {
    const { machines, box } = bench();
    const { id } = await machines.startExec(box, { command: "sleep 987 & sleep 987" });
    await machines.endExec(box, id);
    expect((await machines.exec(box, { command: "pgrep -fc '^sleep 987'" })).stdout).toBe("0\n");
  });
});
