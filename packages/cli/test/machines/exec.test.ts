import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { useMachines } from "../../../sdk/test/support/machines.ts";
import { COMMAND } from "../../../sdk/test/support/server.ts";
import { collect, type Ended, type EndedWithBytes, sandpool, sandpoolWithInput } from "../support/command.ts";

const bench = useMachines();
const exec = (...args: string[]): Promise<Ended> => sandpool(bench().server.variables, "machine", "exec", ...args);
const feed = (input: Uint8Array | string | null, ...args: string[]): Promise<EndedWithBytes> =>
  sandpoolWithInput(bench().server.variables, input, "machine", "exec", ...args);

describe("machine exec", () => {
  test("row 7: output comes on the stream it was written to, byte for byte, and the exit code is passed on", async () => {
    const { code, stdout, stderr } = await feed("", "box", "--", "printf 'a\\377\\0b'; printf 'c\\n\\n' >&2; exit 42");
    expect([code, stdout, stderr]).toEqual([42, Buffer.from("a\xff\0b", "latin1"), "c\n\n"]);
  });

  test("one argument is a line for the shell, several are a program and its arguments, options of its own too", async () => {
    expect((await exec("box", "--", "echo $((1 + 1))")).stdout).toBe("2\n");
    expect((await exec("box", "--", "echo", "$HOME", "--json", "a b")).stdout).toBe("$HOME --json a b\n");
    expect((await exec("--shell", "box", "--", "echo", "$((1 + 1))")).stdout).toBe("2\n");
    expect(await exec("--argv", "box", "--", "true")).toMatchObject({ code: 0 });
    expect(await exec("--argv", "box", "--", "echo a")).toMatchObject({ code: 127, stdout: "" });
  });

  test("folder, user and variables are those asked for", async () => {
    const options = ["--cwd", "/usr/share", "--user", "1000:1000", "--env", "A=x=y", "--env", "B="];
    const { stdout } = await exec(...options, "box", "--", 'pwd; id -u; echo "$A|$B|"');
    expect(stdout).toBe("/usr/share\n1000\nx=y||\n");
  });

  test("row 15: a pipe goes in whole, its last byte before the end", async () => {
    const input = randomBytes(24 * 1024 * 1024);
    const { code, stdout } = await feed(input, "box", "--", "cat");
    expect(code).toBe(0);
    expect(createHash("sha256").update(stdout).digest("hex")).toBe(createHash("sha256").update(input).digest("hex"));
    expect((await feed("no line end", "box", "--", "cat")).stdout.toString()).toBe("no line end");
  });

  test("row 13: ends with the program though the pipe into it stays open", async () => {
    expect(await feed(null, "box", "--", "head -c 0; exit 3")).toMatchObject({ code: 3 });
  });

  test("row 1: a timeout is 124, with what was written until then", async () => {
    const { code, stdout, stderr } = await exec("--timeout", "0.5", "box", "--", "echo begun; sleep 1000");
    expect([code, stdout]).toEqual([124, "begun\n"]);
    expect(stderr).toContain("timeout");
  });

  test.each([
    ["a signal", "kill -TERM $$", 143],
    ["a program that is not there", "no-such-program", 127],
  ])("%s is the shell's exit code for it", async (_name, command, code) => {
    expect((await exec("box", "--", command)).code).toBe(code);
  });

  test("a failure of its own is 125, in one line with what to do; wrong use is 2", async () => {
    const { code, stdout, stderr } = await exec("nowhere", "--", "true");
    expect([code, stdout]).toEqual([125, ""]);
    expect(stderr).toMatch(/^sandpool: .*nowhere.* \(machine_not_found\)\n {2}do: .+\n$/);
    expect((await exec("box", "ls", "-l")).stderr).toContain('stand after "--"');
    expect((await exec("box", "ls", "-l")).code).toBe(2);
    expect((await exec("--env", "NOVALUE", "box", "--", "true")).code).toBe(2);
    expect(JSON.parse((await exec("--json", "nowhere", "--", "true")).stdout)).toMatchObject({
      error: { code: "machine_not_found" },
    });
  });

  test("--json is one document with the outcome, and the exit code is passed on", async () => {
    const { code, stdout } = await feed("in", "--json", "box", "--", "cat; exit 9");
    expect(code).toBe(9);
    expect(JSON.parse(stdout.toString())).toMatchObject({ exit_code: 9, stdout: "in", stderr: "", timed_out: false });
  });

  test("row 19: --detach prints the id; ps, attach and kill find it", async () => {
    const { variables } = bench().server;
    const started = await exec(
      "--detach",
      "box",
      "--",
      "trap 'echo bye; exit 5' TERM; echo hello; while :; do sleep 0.05; done",
    );
    const id = started.stdout.trim();
    const { stdout: listed } = await sandpool(variables, "machine", "ps", "box");
    expect(listed).toMatch(new RegExp(`^${id} +running `, "m"));
    const attached = sandpool(variables, "machine", "attach", "box", id);
    expect((await sandpool(variables, "machine", "kill", "--leader", "box", id)).stdout).toContain("1 process");
    expect(await attached).toMatchObject({ code: 5, stdout: "hello\nbye\n" });
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s goes to the program, whose end is passed on", async (signal, code) => {
    const child = spawn(COMMAND, ["machine", "exec", "box", "--", "echo up; sleep 1000"], {
      env: bench().server.variables,
      stdio: ["ignore", "pipe", "pipe"],
    });
    child.stdout.once("data", () => child.kill(signal));
    expect(await collect(child)).toMatchObject({ code, stdout: "up\n" });
  });

  test("ends the program when its reader has gone, as a broken pipe would", async () => {
    const command = `"${COMMAND}" machine exec box -- yes | head -n 1`;
    const child = spawn("sh", ["-c", command], { env: bench().server.variables, stdio: ["ignore", "pipe", "pipe"] });
    expect(await collect(child)).toMatchObject({ code: 0, stdout: "y\n" });
    const execs = await bench().machines.listExecs(bench().box);
    const yes = execs.find(({ argv }) => argv.at(-1) === "yes");
    expect(await bench().machines.getExec(bench().box, String(yes?.id), { waitSeconds: 30 })).toMatchObject({
      state: "exited",
    });
  });
});
