import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Sandpool } from "sandpool";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  COMMAND,
  ended,
  firstLine,
  makeHome,
  REPOSITORY,
  startServer,
  type TestServer,
} from "../../../sdk/test/support/server.ts";
import type { CheckReport } from "../../src/check/findings.ts";
import { sandpool, sandpoolInTerminal } from "../support/command.ts";

const SPACED = join(import.meta.dirname, "../fixtures/spaced");
const BRANCHING = join(import.meta.dirname, "../fixtures/branching");
const COUNTER = join(REPOSITORY, "examples", "counter");

let server: TestServer;
let folder: string;

beforeAll(async () => {
  server = await startServer();
  folder = mkdtempSync(join(tmpdir(), "sandpool-check-test-"));
}, 60_000);
afterAll(async () => {
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
}, 60_000);

/** A copy of a fixture that does one thing wrong, or nothing. */
function environment(behaviour: string, fixture = SPACED): string {
  const copy = join(folder, behaviour.replaceAll(" ", "-"));
  cpSync(fixture, copy, { recursive: true });
  writeFileSync(join(copy, "behaviour.json"), JSON.stringify(behaviour));
  return copy;
}

async function check(behaviour: string, ...options: string[]): Promise<{ code: number | null; report: CheckReport }> {
  const args = ["env", "check", environment(behaviour), "--json", "--n", "3", "--steps", "60", ...options];
  const { code, stdout } = await sandpool(server.variables, ...args);
  return { code, report: JSON.parse(stdout) as CheckReport };
}

const verdicts = ({ findings }: CheckReport): Record<string, string> =>
  Object.fromEntries(findings.map(({ check: name, verdict }) => [name, verdict]));

describe("env check", { timeout: 60_000 }, () => {
  test("finds nothing wrong with a sound environment, and measures it", async () => {
    const { code, report } = await check("sound");
    expect(code).toBe(0);
    expect(report).toMatchObject({
      ok: true,
      rows: 3,
      failures: [],
      determinism: [],
      server: { url: server.url, started_for_this_check: false },
      types: { observation: "float32 array [2]", action: "Discrete(2)", layout: "array pool: float32 [n, 2]" },
      start: { way: "spawn" },
      latency: { step_ms: { count: 60 } },
    });
    expect(verdicts(report)).toMatchObject({
      start: "warning",
      "observation space": "ok",
      "failed rows": "ok",
      rewards: "ok",
      determinism: "ok",
      memory: "ok",
      branching: "warning",
    });
    expect(report.branching).toMatchObject({ way: null, difference: null });
    expect(report.branching?.blockers).toHaveLength(1);
    expect(report.episodes?.env_steps).toBe(180);
    expect(report.episodes?.ended).toBeGreaterThanOrEqual(3);
    expect(report.memory?.mean_bytes).toBeGreaterThan(0);
  });

  test.each([
    [
      "outside",
      "observation space",
      /outside Box\(float32, \[2\]\); first: row 0, step 3, observation\[1\]: 99 is above 30/,
    ],
    ["nan", "rewards", /NaN or infinite; first: row 0, step 2, NaN/],
    ["failing", "failed rows", /of kind exception in step; first row 0: 'gold'/],
    ["unseeded", "determinism", /^row 0 and row 1 differ at step 1, observation\[0\]: -?\d\S* and -?\d/],
    ["unstartable", "start", /cannot find the map of the world/],
    ["unresettable", "start", /failed in reset: no road[^\n]*\nTraceback: line 9/],
  ])("%s: %s fails, with the place and what to do", async (behaviour, name, detail) => {
    const { code, report } = await check(behaviour);
    expect(code).toBe(1);
    expect(report.ok).toBe(false);
    const finding = report.findings.find((candidate) => candidate.check === name && candidate.verdict === "failed");
    expect(finding?.detail).toMatch(detail);
    expect(finding?.advice).toBeTruthy();
  });

  test("what no row got to is not checked, and never said to be in order", async () => {
    const { code, report } = await check("failing");
    expect(code).toBe(1);
    expect(verdicts(report)).toMatchObject({
      steps: "failed",
      "failed rows": "failed",
      episodes: "not checked",
      rewards: "not checked",
      determinism: "not checked",
      branching: "not checked",
    });
    expect(report).toMatchObject({ ok: false, episodes: null, determinism: null });
  });

  test("a difference in info alone is a warning", async () => {
    const { code, report } = await check("info");
    expect(code).toBe(0);
    expect(verdicts(report)).toMatchObject({ determinism: "ok", "determinism of info": "warning" });
    expect(report.determinism).toMatchObject([{ between: "row 0 and row 1", step: 1, field: "info.pid" }]);
  });

  test("without a space it can sample, what needs actions is not checked; a file of actions checks it", async () => {
    const without = await check("custom action space");
    expect(without.code).toBe(0);
    expect(verdicts(without.report)).toMatchObject({
      "step latency": "not checked",
      episodes: "not checked",
      rewards: "not checked",
      determinism: "not checked",
    });
    const actions = join(folder, "actions.jsonl");
    writeFileSync(actions, "1\n0\n1\n");
    const withFile = await check("custom action space", "--actions", actions);
    expect(verdicts(withFile.report)).toMatchObject({ "step latency": "ok", rewards: "ok", determinism: "ok" });
  });

  test.each([
    ["free", "fork", "ok", /^live fork: after a restore the 20 steps of every row came again$/],
    ["state", "state", "ok", /^state methods: after a restore the 20 steps/],
    ["thread", null, "warning", /^no \(threads: /],
    ["forgetful", "state", "failed", /^state methods, but row 0 and its restored copy differ at step 1, observation/],
  ])("branching, %s: rows are saved, stepped, restored and stepped again", async (behaviour, way, verdict, detail) => {
    const actions = join(folder, "ones.jsonl");
    writeFileSync(actions, "1\n");
    const args = ["env", "check", environment(behaviour, BRANCHING), "--json", "--n", "2", "--steps", "30"];
    const { code, stdout } = await sandpool(server.variables, ...args, "--actions", actions);
    const report = JSON.parse(stdout) as CheckReport;
    const finding = report.findings.find((candidate) => candidate.check === "branching");
    expect([finding?.verdict, report.branching?.way, code]).toEqual([verdict, way, verdict === "failed" ? 1 : 0]);
    expect(finding?.detail).toMatch(detail);
    expect(report.branching?.blockers.length).toBe(way === null ? 1 : 0);
    expect(report.branching?.difference === null).toBe(verdict !== "failed");
  });

  test("a line of the actions file that is no JSON is wrong use, named by its number", async () => {
    const actions = join(folder, "wrong.jsonl");
    writeFileSync(actions, "1\nleft\n");
    const ended = await sandpool(server.variables, "env", "check", COUNTER, "--actions", actions);
    expect(ended).toMatchObject({ code: 2, stdout: "" });
    expect(ended.stderr).toMatch(/wrong\.jsonl, line 2 is not one JSON value/);
  });

  test("stopped by Ctrl-C closes its pool and says so", async () => {
    const client = new Sandpool({ url: server.url, apiKey: server.key });
    const args = ["env", "check", environment("sound"), "--steps", "1000000", "--json"];
    const child = spawn(COMMAND, args, { env: server.variables, stdio: ["ignore", "pipe", "ignore"] });
    const output = firstLine(child).then(() => text);
    let text = "";
    child.stdout?.on("data", (chunk: string) => {
      text += chunk;
    });
    await expect.poll(async () => (await client.listPools()).length, { timeout: 30_000 }).toBe(1);
    expect(await ended(child, () => child.kill("SIGINT"))).toBe(1);
    await output;
    expect(JSON.parse(text)).toMatchObject({ error: { code: "interrupted" } });
    expect(await client.listPools()).toEqual([]);
  });

  test("leaves no pool behind", async () => {
    expect((await sandpool(server.variables, "pool", "list")).stdout).toBe("No pools.\n");
  });

  test("with no server of this account starts its own, says so, and leaves nothing", async () => {
    const { folder: home, variables } = makeHome();
    const ended = await sandpool(variables, "env", "check", COUNTER, "--n", "2");
    expect(ended.code).toBe(0);
    expect(ended.stderr).toMatch(/one is started for this check only/);
    expect(ended.stdout).toMatch(/2 environments by fork/);
    expect(ended.stdout).toMatch(/^branching +ok +live fork: /m);
    expect((await sandpool(variables, "pool", "list")).stderr).toMatch(/No server/);
    rmSync(home, { recursive: true, force: true });
  });

  test("in a terminal prints the same lines in colour, hostile text escaped", async () => {
    const ended = await sandpoolInTerminal(
      server.variables,
      "env",
      "check",
      join(import.meta.dirname, "../fixtures/hostile"),
      "--n",
      "2",
    );
    expect(ended.stdout).toContain("\u001b[32mok");
    expect(ended.stdout).not.toContain("\u001b[2J");
    expect(ended.stdout).not.toContain("\u202e");
  });

  test("a folder that is no environment is named with what was expected", async () => {
    const ended = await sandpool(server.variables, "env", "check", folder, "--json");
    expect(ended.code).toBe(1);
    expect(JSON.parse(ended.stdout)).toMatchObject({
      error: { code: "bad_environment", hint: expect.stringContaining("env.py") },
    });
  });
});
