import { createHash } from "node:crypto";
import { once } from "node:events";
import { PassThrough, Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LiveMachine } from "../../src/machines/contract.ts";
import { machineLeftovers } from "../drivers/machines/support.ts";
import {
  bytesOf,
  createOn,
  execOf,
  killProcess,
  LIMIT_MS,
  makeBench,
  numbered,
  pidOf,
  randomId,
  run,
  shell,
  textOf,
} from "./support.ts";

for (const name of ["namespace", "gvisor"] as const) {
  const bench = makeBench(name);
  const [probe] = await bench.host.probe();
  const reason = probe?.reason ?? null;
  if (reason !== null) {
    console.log(`skipped: machines of the ${name} driver: ${reason}`);
    if (process.env.SANDPOOL_REQUIRE_ROOT === "1") test(`machines of ${name}`, () => expect(reason).toBeNull());
  }

  describe.skipIf(reason !== null)(`a live machine of ${name}`, { timeout: LIMIT_MS }, () => {
    let machine: LiveMachine;

    beforeAll(async () => {
      machine = await createOn(bench, { diskBytes: 3 * 2 ** 30, memoryBytes: 2 ** 31 });
    }, LIMIT_MS);
    afterAll(async () => {
      await bench.clear();
      await bench.host.close();
      expect(await machineLeftovers({ dataDir: bench.dataDir } as never)).toEqual([]);
      bench.remove();
    }, LIMIT_MS);

    test("a program's bytes, exit code and environment come as they are", async () => {
      const script = 'printf "a\\377\\000"; printf "no line end" >&2; exit 7';
      const outcome = await run(machine, ["/bin/sh", "-c", script]);
      expect(outcome).toMatchObject({ exitCode: 7, signal: null, timedOut: false, oomKilled: false, left: [] });
      expect(outcome.stdout).toEqual({ bytes: 3, dropped: 0, head: 3, content: Buffer.from([0x61, 0xff, 0]) });
      expect(outcome.errors).toBe("no line end");
      expect(await shell(machine, "echo $ANSWER $PWD; hostname")).toBe("42 /root\nbox\n");
      expect(await run(machine, ["/usr/bin/env"], { environ: { A: "1" } })).toMatchObject({
        text: expect.not.stringContaining("ANSWER"),
      });
    });

    test("row 22: arguments are never taken for a shell's words", async () => {
      const words = ["/usr/bin/printf", "%s|", "a b", "$(id)", "'", '"', ";ls", "\n", "--", "*"];
      expect((await run(machine, words)).text).toBe("a b|$(id)|'|\"|;ls|\n|--|*|");
    });

    test("a program that cannot be started says why", async () => {
      await expect(machine.startExec(execOf(["/no/such"]))).rejects.toMatchObject({
        ...{ code: "exec_failed", details: { errno: 2, what: "program" }, hint: expect.stringContaining("exist") },
      });
      await expect(machine.waitExec(randomId("x"), { collect: false })).rejects.toMatchObject({
        code: "exec_not_found",
      });
      await expect(machine.attachExec(randomId("x"), "start")).rejects.toMatchObject({ code: "exec_not_found" });
    });

    test("a start with a known id starts nothing, and its streams begin at the first byte", async () => {
      const start = execOf(["/bin/sh", "-c", "echo once >>/root/starts; echo begun; sleep 0.2; echo done"], {
        attach: true,
      });
      const first = await machine.startExec(start);
      const again = await machine.startExec(start);
      expect(again).toMatchObject({ id: first.id, pid: first.pid, startedAt: first.startedAt, repeated: true });
      const texts = [first, again].map(({ stdout }) => textOf(stdout as Readable));
      expect(await Promise.all(texts)).toEqual(["begun\ndone\n", "begun\ndone\n"]);
      expect(await shell(machine, "cat /root/starts")).toBe("once\n");
    });

    test("rows 8 and 11: 200 MB through a reader that is slower than the program, and no byte is lost", async () => {
      const { stdout, id } = await machine.startExec(
        execOf(["/bin/sh", "-c", "seq 1 22500000; printf end"], { attach: true }),
      );
      const hash = createHash("sha256");
      let bytes = 0;
      const slow = new Writable({
        highWaterMark: 2 ** 20,
        write(chunk: Buffer, _encoding, callback) {
          const before = bytes;
          hash.update(chunk);
          bytes += chunk.length;
          if (Math.floor(before / 2 ** 23) === Math.floor(bytes / 2 ** 23)) callback();
          else setTimeout(callback, 20);
        },
      });
      await pipeline(stdout as Readable, slow);
      expect(await machine.waitExec(id, { collect: false })).toMatchObject({ exitCode: 0, stdout: { bytes } });
      expect(bytes).toBe(191_388_900);
      const expected = await shell(machine, "(seq 1 22500000; printf end) | sha256sum");
      expect(expected).toBe(`${hash.digest("hex")}  -\n`);
    });

    test("row 10: over the cap the head and the tail are kept, and the place between them is known", async () => {
      const outcome = await run(machine, ["/bin/sh", "-c", "seq 1 100000"], { keepBytes: 1000 });
      expect(outcome.stdout).toMatchObject({ bytes: 588_895, dropped: 587_895, head: 500 });
      expect(outcome.text.slice(0, 8)).toBe("1\n2\n3\n4\n");
      expect(outcome.text.slice(500).endsWith("\n99999\n100000\n")).toBe(true);
    });

    test("row 15: standard input arrives whole and in order, its end after the last byte", async () => {
      const { id } = await machine.startExec(execOf(["/usr/bin/sha256sum"], { stdin: true }));
      const expected = createHash("sha256");
      for await (const piece of numbered(20_000_000)) expected.update(piece as Buffer);
      expect(await machine.writeExecInput(id, numbered(20_000_000))).toEqual({ bytes: 20_000_000 });
      const outcome = await machine.waitExec(id, { collect: true });
      expect(String(outcome.stdout.content)).toBe(`${expected.digest("hex")}  -\n`);
    });

    test("row 13: an input that stays open holds nobody up once the program has ended", async () => {
      const { id } = await machine.startExec(execOf(["/usr/bin/head", "-c", "3"], { stdin: true }));
      const source = new PassThrough();
      source.write("abcdef");
      const { bytes } = await machine.writeExecInput(id, source);
      expect(bytes).toBeGreaterThanOrEqual(3);
      expect(source.destroyed).toBe(false);
      expect(await machine.waitExec(id, { collect: true })).toMatchObject({ exitCode: 0 });
    });

    test("an input whose source breaks leaves standard input open for another", async () => {
      const { id } = await machine.startExec(execOf(["/bin/cat"], { stdin: true }));
      const broken = new Readable({ read: () => undefined });
      const fed = machine.writeExecInput(id, broken);
      broken.destroy(new Error("the caller went away"));
      await expect(fed).rejects.toThrow("the caller went away");
      expect(await machine.writeExecInput(id, bytesOf("second"))).toEqual({ bytes: 6 });
      expect(String((await machine.waitExec(id, { collect: true })).stdout.content)).toBe("second");
    });

    test("row 3: signals reach the whole tree inside", async () => {
      const { id } = await machine.startExec(execOf(["/bin/sh", "-c", "sleep 1000 & sleep 1000 & wait"]));
      while (
        !(await shell(machine, "ps -e -o args= 2>/dev/null || cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).includes(
          "sleep 1000",
        )
      )
        await sleep(10);
      expect((await machine.signalExec(id, "KILL", true)).signalled).toBeGreaterThanOrEqual(1);
      expect(await machine.waitExec(id, { collect: false })).toMatchObject({
        exitCode: null,
        signal: "KILL",
        left: [],
      });
    });

    test("row 6: a timeout ends the tree and keeps what it wrote", async () => {
      const outcome = await run(machine, ["/bin/sh", "-c", "echo partial; sleep 1000"], { timeoutMs: 300 });
      expect(outcome).toMatchObject({ timedOut: true, text: "partial\n" });
    });

    test("whoever stops waiting for a program is let go; the program and the others are not", async () => {
      const { id } = await machine.startExec(execOf(["/bin/sh", "-c", "read line; echo $line"], { stdin: true }));
      const scope = new AbortController();
      const gone = machine.waitExec(id, { collect: true, signal: scope.signal });
      const stays = machine.waitExec(id, { collect: true });
      scope.abort(new Error("gone"));
      await expect(gone).rejects.toThrow("gone");
      await machine.writeExecInput(id, bytesOf("word\n"));
      expect(String((await stays).stdout.content)).toBe("word\n");
    });

    test("a terminal has one output, a size that can be changed, and the character that ends its input", async () => {
      const { id, stdout, stderr } = await machine.startExec(
        execOf(["/bin/sh", "-c", "trap 'stty size' WINCH; stty size; cat"], {
          ...{ tty: { rows: 7, columns: 50 }, attach: true, stdin: true },
        }),
      );
      expect(stderr).toBeNull();
      const text = textOf(stdout as Readable);
      const input = new PassThrough();
      const fed = machine.writeExecInput(id, input);
      const seen = await machine.attachExec(id, "start");
      await once(seen.stdout, "data");
      await machine.resizeExec(id, 9, 60);
      input.end("word\n");
      await fed;
      seen.stdout.resume();
      expect((await text).replaceAll("\r\n", "\n")).toMatch(/^7 50\n(.*\n)*word\n/);
      expect(await machine.waitExec(id, { collect: false })).toMatchObject({ exitCode: 0 });
    });

    test("row 28: 64 programs at once, each with its own output", async () => {
      const numbers = Array.from({ length: 64 }, (_, index) => index);
      const outcomes = await Promise.all(
        numbers.map((index) => run(machine, ["/bin/sh", "-c", `seq ${index} 20000 | tail -n +2; exit ${index}`])),
      );
      for (const index of numbers) {
        expect(outcomes[index]).toMatchObject({ exitCode: index, stdout: { dropped: 0 } });
        expect(outcomes[index]?.text.split("\n").length).toBe(20_000 - index + 1);
      }
    });

    test("a reader that lets go of a stream lets the program run on, and leaves the channel whole", async () => {
      const { id, stdout } = await machine.startExec(
        execOf(["/bin/sh", "-c", "seq 1 3000000; echo end >&2"], { attach: true }),
      );
      await once(stdout as Readable, "data");
      (stdout as Readable).destroy();
      const outcome = await machine.waitExec(id, { collect: true });
      expect(outcome).toMatchObject({ exitCode: 0, stdout: { bytes: 22_888_896 } });
      expect(String(outcome.stderr.content)).toBe("end\n");
    });

    test("row 12: single characters and bytes come through in whatever pieces, none changed", async () => {
      const text = "ä€😀".repeat(1000);
      const pieces = Readable.from([...Buffer.from(text)].map((byte) => Buffer.of(byte)));
      const { id } = await machine.startExec(execOf(["/bin/cat"], { stdin: true }));
      expect(await machine.writeExecInput(id, pieces)).toEqual({ bytes: 9000 });
      expect(String((await machine.waitExec(id, { collect: true })).stdout.content)).toBe(text);
    });

    test("a finished program is listed until it is forgotten", async () => {
      const { id } = await run(machine, ["/bin/sh", "-c", "exit 3"]);
      const listed = async () => (await machine.listExecs()).filter((exec) => exec.id === id);
      expect(await listed()).toMatchObject([{ state: "exited", exitCode: 3, argv: ["/bin/sh", "-c", "exit 3"] }]);
      await machine.forgetExec(id);
      expect(await listed()).toEqual([]);
    });

    test("a machine says what it uses, where its host counts that", async () => {
      const bytes = await machine.memoryBytes();
      expect(bytes === null || bytes > 0).toBe(true);
    });

    test("a shim that is killed in the middle of a program costs no outcome; its streams say what to do", async () => {
      const script = "echo before; read line; echo after $line; exit 5";
      const { id, stdout } = await machine.startExec(execOf(["/bin/sh", "-c", script], { stdin: true, attach: true }));
      await once(stdout as Readable, "data");
      const waiting = machine.waitExec(id, { collect: true });
      const failed = once(stdout as Readable, "error");
      await killProcess(pidOf(bench, machine.id, "shim.pid"));
      expect(await failed).toMatchObject([{ code: "agent_failed", hint: expect.stringContaining("Attach again") }]);
      const again = await machine.attachExec(id, "start");
      await machine.writeExecInput(id, bytesOf("word\n"));
      expect(await textOf(again.stdout)).toBe("before\nafter word\n");
      const outcome = await waiting;
      expect(outcome).toMatchObject({ exitCode: 5 });
      expect(String(outcome.stdout.content)).toBe("before\nafter word\n");
    });

    test("a write that the shim's death cuts off is an error, and leaves the old file", async () => {
      await machine.writeFile("/root/kept", bytesOf("old"), {});
      const source = new PassThrough();
      source.write("new");
      const written = machine.writeFile("/root/kept", source, {}).catch((error: unknown) => error);
      await shell(machine, "until ls -a /root | grep -q part; do sleep 0.01; done");
      await killProcess(pidOf(bench, machine.id, "shim.pid"));
      expect(await written).toMatchObject({ code: "agent_failed", hint: expect.stringContaining("ask again") });
      expect(await textOf((await machine.readFile("/root/kept", {})).content)).toBe("old");
      expect(await shell(machine, "until ! ls -a /root | grep part; do sleep 0.01; done")).not.toContain("kept");
    });
  });
}
