import { describe, expect, test } from "vitest";
import { useMachines } from "../../../sdk/test/support/machines.ts";
import { type Ended, sandpool } from "../support/command.ts";
import { atTerminal } from "../support/terminal.ts";

const bench = useMachines();
const run = (...args: string[]): Promise<Ended> => sandpool(bench().server.variables, "machine", ...args);
const NEW = ["--driver", "namespace", "--isolated"];

describe("machines on the command line", () => {
  test("are made as asked for, listed and shown", async () => {
    const made = await run(
      "new",
      "made",
      ...NEW,
      "--size",
      "vcpu=1,memory=512MiB,disk=1GiB",
      "--env",
      "A=b",
      "--label",
      "k=v",
    );
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(made.stdout).toMatch(
      /^made \(m[0-9a-z]{20}\) is running: 1 vCPU, 512MiB memory, 1GiB disk, image host, namespace\.\n$/,
    );
    const table = await run("list", "--label", "k=v");
    expect(table.stdout).toMatch(/^NAME +ID +STATE/);
    expect(table.stdout.split("\n")).toHaveLength(3);
    const info = await run("info", "made");
    expect(info.stdout).toMatch(/^network +isolated$/m);
    expect(info.stdout).toMatch(/^environment +A$/m);
    expect(JSON.parse((await run("info", "made", "--json")).stdout)).toMatchObject({
      name: "made",
      labels: { k: "v" },
    });
    const list = JSON.parse((await run("list", "--json")).stdout) as { quota: { used: number; limit: number } };
    expect(list.quota.used).toBe(2);
    expect(list.quota.limit).toBeGreaterThanOrEqual(2);
  });

  test("are stopped, started, and deleted without asking only where --yes is given", async () => {
    expect((await run("stop", "made")).stdout).toMatch(/ is stopped\.\n$/);
    expect((await run("start", "made")).stdout).toMatch(/ is running\.\n$/);
    const asked = await run("delete", "made");
    expect([asked.code, asked.stdout]).toEqual([2, ""]);
    expect(asked.stderr).toContain("--yes");
    const { variables } = bench().server;
    const no = await atTerminal(variables, [{ until: "[y/N]" }, { type: "\r" }], "machine", "delete", "made");
    expect([no.code, no.restored]).toEqual([1, true]);
    expect((await run("info", "made")).code).toBe(0);
    // A slip of the pen deletes nothing of what else was named.
    expect((await run("delete", "-y", "made", "maed")).code).toBe(1);
    const yes = await atTerminal(variables, [{ until: "[y/N]" }, { type: "yes\r" }], "machine", "delete", "made");
    expect(yes.code).toBe(0);
    expect(JSON.parse((await run("info", "made", "--json")).stdout)).toMatchObject({
      error: { code: "machine_not_found" },
    });
  });

  test("that cannot be made are refused with what to do", async () => {
    expect(await run("new", "box", ...NEW)).toMatchObject({ code: 1, stderr: expect.stringContaining("(name_taken)") });
    for (const args of [
      ["--size", "huge"],
      ["--driver", "docker"],
      ["--env", "x"],
      ["--lifetime", "0"],
    ]) {
      const { code, stderr } = await run("new", "bad", ...args);
      expect([code, stderr.includes(args[0] as string)]).toEqual([2, true]);
    }
  });

  test("row 29: several at once are named and their fates told; one that failed makes the exit code 1", async () => {
    await run("new", "few-2", ...NEW);
    const { code, stdout } = await run("new", "few", "--count", "2", ...NEW);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^few-1 \(.*\nfailed: .*\(name_taken\)/);
    await run("delete", "-y", "few-1", "few-2");
  });

  test("class 56: what a program calls itself is shown, not obeyed", async () => {
    const { machines, box } = bench();
    const { id } = await machines.startExec(box, { argv: ["sh", "-c", "sleep 1000", "\u001b[2J\u202e\n"] });
    const { stdout } = await run("ps", "box");
    expect(stdout).toContain("\\x1b[2J\\u202e\\n");
    expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
    expect((await run("ps", "box", "--json")).stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
    await machines.endExec(box, id);
  });

  test("tell the addresses of a port, with a link on request", async () => {
    const { stdout, stderr } = await run("url", "box", "8321");
    const { port } = new URL(bench().server.url);
    expect(stdout).toBe(
      `http://8321-box.localhost:${port}/\nhttp://127.0.0.1:${port}/v1/machines/${bench().box}/ports/8321/\n`,
    );
    expect(stderr).toContain("Nothing listens on port 8321 yet.");
    expect((await run("url", "box", "8321", "--link", "60")).stdout).toMatch(
      /^http:\/\/8321-m[0-9a-z]{20}\.localhost:/,
    );
    expect(JSON.parse((await run("url", "box", "8321", "--public", "--json")).stdout)).toMatchObject({ public: true });
    expect(JSON.parse((await run("url", "box", "8321", "--no-public", "--json")).stdout)).toMatchObject({
      public: false,
    });
    expect((await run("url", "box", "0")).code).toBe(2);
  });

  test("their storage is shown, and nothing is removed by a dry run", async () => {
    const { variables } = bench().server;
    expect((await sandpool(variables, "df")).stdout).toMatch(/^KIND +COUNT +ON DISK\n(.*\n)+.* free; below /);
    expect(JSON.parse((await sandpool(variables, "gc", "--dry-run", "--json")).stdout)).toMatchObject({ removed: [] });
  });
});
