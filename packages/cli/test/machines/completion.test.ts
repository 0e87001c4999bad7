import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { describe, expect, test } from "vitest";
import { useMachines } from "../../../sdk/test/support/machines.ts";
import { COMMAND, makeHome } from "../../../sdk/test/support/server.ts";
import { collect, sandpool } from "../support/command.ts";

const bench = useMachines();

async function complete(...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await sandpool(bench().server.variables, "__complete", "--", ...words);
  expect([code, stderr]).toEqual([0, ""]);
  return stdout.split("\n").filter(Boolean);
}

describe("completion", () => {
  test("knows commands, options, choices, and the names of machines", async () => {
    expect(await complete("mach")).toEqual(["machine"]);
    expect(await complete("machine", "st")).toEqual(["stop", "start"]);
    expect(await complete("machine", "exec", "--ti")).toEqual(["--timeout"]);
    expect(await complete("completion", "")).toEqual(["bash", "zsh", "fish"]);
    expect(await complete("machine", "info", "")).toEqual(["box"]);
    expect(await complete("machine", "delete", "-y", "other", "b")).toEqual(["box"]);
    expect(await complete("machine", "cp", "file", "b")).toEqual(["box:/"]);
    expect(await complete("machine", "exec", "--cwd", "box")).toEqual([]);
    expect(await complete("machine", "exec", "box", "--", "b")).toEqual([]);
    expect(await complete("--h")).toEqual(["--help"]);
  });

  test("is silent where no server runs", async () => {
    const { stdout, stderr, code } = await sandpool(makeHome().variables, "__complete", "--", "machine", "info", "");
    expect([stdout, stderr, code]).toEqual(["", "", 0]);
  });

  test("works in bash, after a colon too", async () => {
    const script = `
      PATH=${dirname(COMMAND)}:$PATH
      source <(sandpool completion bash)
      try() { COMP_LINE="$*"; COMP_POINT=\${#COMP_LINE}; _sandpool 2>/dev/null; echo "$\{COMPREPLY[*]}"; }
      try sandpool machine info bo
      try sandpool machine cp x box:
      try sandpool completion ""
    `;
    const child = spawn("bash", ["-c", script], { env: bench().server.variables, stdio: ["ignore", "pipe", "pipe"] });
    expect((await collect(child)).stdout).toBe("box\n/\nbash zsh fish\n");
  });

  test.each(["bash", "zsh", "fish"])("has a script for %s that asks the command itself", async (shell) => {
    const { code, stdout } = await sandpool(bench().server.variables, "completion", shell);
    expect([code, stdout.includes("sandpool __complete --")]).toEqual([0, true]);
  });
});
