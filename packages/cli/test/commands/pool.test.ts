import { join } from "node:path";
import { RLPool } from "sandpool";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startServer, type TestServer } from "../../../sdk/test/support/server.ts";
import { sandpool } from "../support/command.ts";

const HOSTILE = join(import.meta.dirname, "../fixtures/hostile");

let server: TestServer;
let pool: RLPool;

beforeAll(async () => {
  server = await startServer();
  pool = await RLPool.create(HOSTILE, { n: 2, name: "hostile", warn: false }, { url: server.url, apiKey: server.key });
}, 60_000);
afterAll(() => server?.stop(), 60_000);

const run = (...args: string[]): ReturnType<typeof sandpool> => sandpool(server.variables, ...args);

describe("pools in the terminal", { timeout: 60_000 }, () => {
  test("list shows every pool, as a table and as JSON", async () => {
    const table = await run("pool", "list");
    expect(table.stdout).toMatch(/^ID +NAME +N +STATE +START/);
    expect(table.stdout).toContain(pool.id);
    expect(JSON.parse((await run("pool", "list", "--json")).stdout)).toMatchObject({
      pools: [{ id: pool.id, n: 2, name: "hostile" }],
    });
  });

  test("status shows every row, with memory when asked", async () => {
    const status = JSON.parse((await run("pool", "status", "hostile", "--memory", "--json")).stdout) as {
      rows: { row: number; pss_bytes: number }[];
    };
    expect(status.rows.map(({ row }) => row)).toEqual([0, 1]);
    expect(status.rows.every((row) => row.pss_bytes > 0)).toBe(true);
    const { stdout } = await run("pool", "status", "hostile", "--memory");
    expect(stdout).toMatch(/ROW +STATE +PID/);
    expect(stdout).toMatch(/^packing +2 processes of 1 row$/m);
  });

  test("escape sequences that an environment prints or raises never reach the terminal", async () => {
    await pool.step(["raise", 0]);
    for (const args of [
      ["logs", "hostile", "--row", "0"],
      ["status", "hostile"],
    ]) {
      const { stdout } = await run("pool", ...args);
      expect(stdout).toContain("\\x1b[2J");
      expect(stdout).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}]/u);
    }
    const { stdout } = await run("pool", "logs", "hostile", "--row", "0", "--json");
    expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
    expect((JSON.parse(stdout) as { text: string }).text).toContain("\u001b[2J\u009b31m\u202e");
  });

  test("a pool that is not there is named, escaped, with what to do", async () => {
    const ended = await run("pool", "status", "no\u001b[31m");
    expect(ended.code).toBe(1);
    expect(ended.stderr).not.toContain("\u001b");
    expect(JSON.parse((await run("pool", "close", "nowhere", "--json")).stdout)).toMatchObject({
      error: { code: "pool_not_found" },
    });
  });

  test("keys are made, listed without their text, used and revoked", async () => {
    const made = await run("keys", "create", "trainer");
    const key = made.stdout.trim();
    expect(key).toMatch(/^sp_\S+$/);
    const listed = await run("keys", "list", "--json");
    expect(listed.stdout).not.toContain(key);
    const { keys } = JSON.parse(listed.stdout) as { keys: { id: string; name: string }[] };
    const id = keys.find(({ name }) => name === "trainer")?.id as string;
    const asTrainer = { ...server.variables, SANDPOOL_URL: server.url, SANDPOOL_API_KEY: key };
    expect((await sandpool(asTrainer, "pool", "list")).code).toBe(0);
    expect((await run("keys", "revoke", id)).stdout).toBe(`Revoked ${id}.\n`);
    const refused = await sandpool(asTrainer, "pool", "list", "--json");
    expect(JSON.parse(refused.stdout)).toMatchObject({ error: { code: "unauthorized" } });
  });

  test("close leaves nothing", async () => {
    expect((await run("pool", "close", "hostile")).stdout).toBe(`Closed ${pool.id}; nothing of it is left.\n`);
    expect((await run("pool", "list")).stdout).toBe("No pools.\n");
  });
});
