import { spawn } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useMachines } from "../support/machines.ts";
import { REPOSITORY } from "../support/server.ts";

const bench = useMachines();

test("the example of a coding agent's tools mends its program and leaves no machine", async () => {
  const child = spawn(process.execPath, [join(REPOSITORY, "examples/machines/agent-tools.ts")], {
    env: bench().server.variables,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  for await (const text of child.stdout.setEncoding("utf8")) output += text;
  expect(output).toContain("FAILED");
  expect(output.endsWith("\nsolved: yes\n")).toBe(true);
  expect((await bench().machines.list()).map(({ name }) => name)).toEqual(["box"]);
});
