import { describe, expect, test } from "vitest";
import { bytesOf, sha256, useMachines } from "../machineServer.ts";
import { until } from "../startTestServer.ts";

const server = useMachines();

/** Writes bytes that a generator inside and the test derive alike. */
const PATTERN = (count: number) => `import sys; sys.stdout.buffer.write(bytes(range(256)) * ${count / 256})`;
const patternHash = (count: number) =>
  sha256(Buffer.alloc(count, Buffer.from(Array.from({ length: 256 }, (_, at) => at))));

async function isAlive(marker: string): Promise<boolean> {
  const list = await server().run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
  return list.includes(marker);
}

describe("a timeout", () => {
  test("row 1, row 2: it ends the whole tree, also what left its session, and says so", async () => {
    const command = "setsid sh -c 'trap \"\" TERM HUP; exec sleep 7771' & (sleep 7771 &) ; sleep 7771";
    const outcome = await server().exec({ command, timeout: 0.5 });
    expect(outcome).toMatchObject({ timed_out: true, oom_killed: false, left: [] });
    expect(await isAlive("sleep 7771")).toBe(false);
  });

  test("row 3, row 4: it holds where the client does not read, and where it went away", async () => {
    const body = JSON.stringify({ command: "yes 7772", timeout: 0.5, stream: true });
    const path = `/v1/machines/${server().box}/exec`;
    const reply = await server().open(path, { method: "POST", body });
    reply.pause();
    await until(async () => !(await isAlive("yes 7772")));
    reply.destroy();
    const detached = await server().exec({ command: "exec sleep 7772", timeout: 0.5, detach: true });
    await until(async () => !(await isAlive("sleep 7772")));
    const outcome = await server().api.send({ path: `${path}/${detached.id}?wait=30` });
    expect(outcome.json).toMatchObject({ state: "exited", timed_out: true, signal: "TERM", exit_code: 143 });
  });

  test("row 6: what was written before it is there", async () => {
    const outcome = await server().exec({ command: "printf out; printf err >&2; sleep 60", timeout: 0.5 });
    expect(outcome).toMatchObject({ timed_out: true, stdout: "out", stderr: "err", truncated: false });
  });
});

describe("a call", () => {
  test("row 5, row 18: it ends with its leader though a daemon holds the pipe, and names the daemon, which lives", async () => {
    const outcome = await server().exec({ command: "sleep 7773 & echo started" });
    expect(outcome).toMatchObject({ stdout: "started\n", exit_code: 0 });
    expect(outcome.left).toEqual([{ pid: expect.any(Number), command: expect.stringContaining("sleep 7773") }]);
    expect(await isAlive("sleep 7773")).toBe(true);
    const path = `/v1/machines/${server().box}/exec`;
    const { execs } = (await server().api.send({ path })).json as { execs: { id: string; state: string }[] };
    expect(execs.find(({ id }) => id === outcome.id)).toMatchObject({ state: "detached" });
    const ended = await server().api.send({ method: "DELETE", path: `${path}/${outcome.id}` });
    expect(ended.json).toEqual({ id: outcome.id, deleted: true });
    expect(await isAlive("sleep 7773")).toBe(false);
  });

  test("row 7, row 8: output is byte for byte, without a last newline, with one endless line", async () => {
    const outcome = await server().exec({
      command: "printf 'no newline'; head -c 300000 /dev/zero | tr '\\0' a; exit 7",
    });
    expect(outcome.exit_code).toBe(7);
    expect(outcome.stdout).toBe(`no newline${"a".repeat(300_000)}`);
  });

  test("row 9, row 10: over the cap head and tail are kept, and all counts are told", async () => {
    const size = 10 * 2 ** 20;
    const outcome = await server().exec({ argv: ["/usr/bin/python3", "-c", PATTERN(size)] });
    const kept = bytesOf(outcome.stdout);
    const { stdout_bytes: bytes, stdout_dropped: dropped, stdout_head: head } = outcome as Record<string, unknown>;
    expect([outcome.truncated, bytes, Number(dropped) + kept.length]).toEqual([true, size, size]);
    const expected = (at: number) => at % 256;
    expect(kept[0]).toBe(0);
    expect(kept[Number(head) - 1]).toBe(expected(Number(head) - 1));
    expect(kept[Number(head)]).toBe(expected(Number(head) + Number(dropped)));
    expect(kept.at(-1)).toBe(255);
  });

  test("row 11, row 12: a burst that fits is whole, whatever its bytes", async () => {
    const size = 3 * 2 ** 20;
    const outcome = await server().exec({ argv: ["/usr/bin/python3", "-c", PATTERN(size)] });
    expect(outcome.truncated).toBe(false);
    expect(sha256(bytesOf(outcome.stdout))).toBe(patternHash(size));
    // Characters of one to four bytes, across every border between pieces.
    const text = "aä€😀".repeat(30_000);
    const written = await server().exec({
      argv: ["/usr/bin/python3", "-c", "print('a\\u00e4\\u20ac\\U0001f600' * 30000, end='')"],
    });
    expect(written.stdout).toBe(text);
  });

  test("row 13: standard input is off unless asked for", async () => {
    expect(await server().exec({ command: "cat; echo done" })).toMatchObject({ stdout: "done\n", exit_code: 0 });
    const asked = await server().exec({ command: "sleep 0.1", stdin: "never read" });
    expect(asked).toMatchObject({ exit_code: 0 });
  });

  test("row 14, row 15: standard input ends after its last byte", async () => {
    const input = Buffer.alloc(5 * 2 ** 20, "0123456789abcdef!");
    const outcome = await server().exec({ command: "sha256sum", stdin: { base64: input.toString("base64") } });
    expect(outcome.stdout).toBe(`${sha256(input)}  -\n`);
    expect((await server().exec({ command: "wc -c", stdin: "" })).stdout).toBe("0\n");
  });

  test("row 16: a heredoc and a long subprocess are the shell's own", async () => {
    const command = "cat <<'EOF'\na $HOME 'quoted'\nEOF\nsleep 0.2; tr '\\0' '|' < /proc/$$/cmdline; true";
    const outcome = await server().exec({ command });
    expect(outcome.stdout).toBe(`a $HOME 'quoted'\n/bin/bash|-c|${command}|`);
  });

  test("row 21: a program that the memory's limit ended says so", async () => {
    const machine = await server().newMachine({ size: { vcpu: 1, memory: "128MiB", disk: "64MiB" } });
    const grow = "data = []\nwhile True: data.append(bytearray(b'x' * 2 ** 20))";
    const outcome = await server().exec({ argv: ["/usr/bin/python3", "-c", grow] }, { machine });
    expect(outcome).toMatchObject({ oom_killed: true, signal: "KILL", exit_code: 137 });
    expect(await server().run("echo alive", machine)).toBe("alive\n");
  });

  test("row 22: arguments, variables and folders are never a shell's", async () => {
    const odd = "a b;$(touch /tmp/row22) `id` '\"\\ \n*";
    const outcome = await server().exec({
      argv: ["/usr/bin/printf", "%s|", odd, ""],
    });
    expect(outcome.stdout).toBe(`${odd}||`);
    const env = await server().exec({ argv: ["/usr/bin/printenv", "ODD"], environment: { ODD: odd } });
    expect(env.stdout).toBe(`${odd}\n`);
    for (const environment of [{ "A=B": "x" }, { "": "x" }, { "A-B": "x" }, { A: "x\0y" }]) {
      const refused = await server().tryExec({ argv: ["true"], environment });
      expect([refused.status, refused.json.error?.code]).toEqual([400, "invalid_request"]);
    }
    expect((await server().exec({ command: "ls /tmp/row22" })).exit_code).not.toBe(0);
  });

  test("a program that cannot be started says what of it failed", async () => {
    for (const [request, what] of [
      [{ argv: ["/no/such"] }, "program"],
      [{ argv: ["true"], cwd: "/no/such" }, "cwd"],
      [{ argv: ["true"], user: "nobody-here" }, "user"],
    ] as const) {
      const refused = await server().tryExec(request);
      expect([refused.status, refused.json.error?.code, refused.json.error?.details.what]).toEqual([
        422,
        "exec_failed",
        what,
      ]);
    }
    for (const request of [
      {},
      { command: "a", argv: ["a"] },
      { argv: [""] },
      { argv: ["true"], detach: true, stream: true },
    ]) {
      expect((await server().tryExec(request)).json.error?.code).toBe("invalid_request");
    }
  });

  test("the machine's variables, the request's over them, and the user and folder it asks for", async () => {
    const machine = await server().newMachine({ environment: { ONE: "machine", TWO: "machine" } });
    const outcome = await server().exec(
      {
        command: "echo $ONE $TWO $HOME $(id -u) $(pwd)",
        environment: { TWO: "request" },
        user: "1234:5678",
        cwd: "/usr",
      },
      { machine },
    );
    expect(outcome.stdout).toBe("machine request / 1234 /usr\n");
    expect(await server().run("echo $ONE", machine)).toBe("machine\n");
  });

  test("a signal ends it, with the shell's exit code", async () => {
    const outcome = await server().exec({ command: "kill -USR1 $$" });
    expect(outcome).toMatchObject({ signal: "USR1", exit_code: 138 });
  });
});

test("row 9: an exec that began before hundreds of others has its output at its end", async () => {
  const first = server().exec({ command: "until [ -e /tmp/go ]; do sleep 0.05; done; echo first" });
  const others = Array.from({ length: 300 }, () => server().exec({ argv: ["/bin/true"] }));
  await Promise.all(others);
  await server().run("touch /tmp/go");
  expect(await first).toMatchObject({ stdout: "first\n", exit_code: 0 });
});

test("class 33: sixty-four execs that write much at once are all whole, and cost the server a bounded part of it", async () => {
  const machine = await server().newMachine({ size: { vcpu: 2, memory: "4GiB", disk: "64MiB" } });
  const size = 4 * 2 ** 20;
  const body = JSON.stringify({ command: `head -c ${size} /dev/zero | tr '\\0' a` });
  const before = process.memoryUsage.rss();
  let peak = before;
  const replies = Array.from({ length: 64 }, async () => {
    const reply = await server().open(`/v1/machines/${machine}/exec`, { method: "POST", body });
    let [length, head] = [0, ""];
    for await (const chunk of reply) {
      head += length < 500 ? String((chunk as Buffer).subarray(0, 500)) : "";
      length += (chunk as Buffer).length;
      peak = Math.max(peak, process.memoryUsage.rss());
    }
    return { head, length };
  });
  for (const { head, length } of await Promise.all(replies)) {
    expect(head).toContain('"exit_code":0,"signal":null,"timed_out":false,"oom_killed":false,"truncated":false');
    expect(length).toBeGreaterThan(size);
  }
  expect(peak - before).toBeLessThan(320 * 2 ** 20);
});
