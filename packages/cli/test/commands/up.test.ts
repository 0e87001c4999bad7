import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { RLPool } from "sandpool";
import { describe, expect, test } from "vitest";
import { COMMAND, ended, firstLine, makeHome, REPOSITORY, startServer } from "../../../sdk/test/support/server.ts";
import { sandpool } from "../support/command.ts";

describe("sandpool up", { timeout: 90_000 }, () => {
  test("prints one ready line with url, what was made and where the key lies; the next start keeps the key", async () => {
    const { folder, variables } = makeHome();
    const credentials = join(folder, "config", "sandpool", "credentials.json");
    const keys: string[] = [];
    for (const made of [
      /made data folder \S+ and a key; url and key in \S+credentials\.json/,
      /data in \S+; url and key in/,
    ]) {
      const child = spawn(COMMAND, ["up", "--listen", "127.0.0.1:0"], { env: variables });
      const line = await firstLine(child);
      expect(line).toMatch(/^Sandpool \S+ is ready at http:\/\/127\.0\.0\.1:\d+ /);
      expect(line).toMatch(made);
      keys.push((JSON.parse(readFileSync(credentials, "utf8")) as { key: string }).key);
      expect(statSync(credentials).mode & 0o777).toBe(0o600);
      expect(await ended(child, () => child.kill("SIGTERM"))).toBe(0);
      expect(JSON.parse(readFileSync(credentials, "utf8"))).toEqual({ key: keys[0] });
    }
    expect(keys[1]).toBe(keys[0]);
    rmSync(folder, { recursive: true });
  });

  test("a second one on the same data folder ends with 1 and names the process of the first", async () => {
    const server = await startServer();
    const second = await sandpool(server.variables, "up", "--listen", "127.0.0.1:0", "--json");
    expect(second.code).toBe(1);
    expect(JSON.parse(second.stdout)).toMatchObject({
      error: { code: "data_folder_locked", message: expect.stringContaining(`${server.process.pid}`) },
    });
    expect((await sandpool(server.variables, "keys", "list")).code).toBe(0);
    expect(await server.stop()).toBe(0);
  });

  test("down stops it, closing its pools", async () => {
    const server = await startServer();
    await RLPool.create(join(REPOSITORY, "examples", "counter"), { n: 2 }, { url: server.url, apiKey: server.key });
    const gone = ended(server.process, () => undefined);
    const down = await sandpool(server.variables, "down", "--json");
    expect(JSON.parse(down.stdout)).toMatchObject({ stopped: true, pid: server.process.pid });
    expect(await gone).toBe(0);
    await server.stop();
  });

  test.each(["SIGINT", "SIGTERM"] as const)(
    "%s leaves no process, mount, cgroup or workspace of a pool",
    async (signal) => {
      const server = await startServer();
      const before = leftovers(server.folder);
      await RLPool.create(join(REPOSITORY, "examples", "counter"), { n: 4 }, { url: server.url, apiKey: server.key });
      expect(leftovers(server.folder).descendants.length).toBeGreaterThan(before.descendants.length);
      expect(await ended(server.process, () => server.process.kill(signal))).toBe(0);
      const after = leftovers(server.folder);
      expect(after).toEqual({ descendants: [], mounts: [], cgroups: before.cgroups });
      await server.stop();
    },
  );

  test("leaves machines running and names them; down stops them, also where no server runs, and start brings the disk back", async () => {
    const server = await startServer();
    const machine = async (method: string, path: string, key: string, url: string, value: unknown = {}) => {
      const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
      const reply = await fetch(`${url}/v1/machines${path}`, { method, headers, body: JSON.stringify(value) });
      return (await reply.json()) as Record<string, unknown>;
    };
    await machine("POST", "", server.key, server.url, { name: "box", driver: "namespace", isolated: true });
    await machine("POST", "/box/exec", server.key, server.url, { command: "echo word > /root/word" });
    const last = lastLine(server.process);
    await ended(server.process, () => server.process.kill("SIGTERM"));
    expect(JSON.parse(await last)).toMatchObject({ event: "stopped", machines_running: [{ name: "box" }] });
    const down = await sandpool(server.variables, "down", "--json");
    expect(JSON.parse(down.stdout)).toMatchObject({ stopped: false, machines_running: [], machines_orphaned: 1 });
    const again = spawn(COMMAND, ["up", "--listen", "127.0.0.1:0", "--json"], { env: server.variables });
    const { url } = JSON.parse(await firstLine(again)) as { url: string };
    await machine("POST", "/box/start", server.key, url);
    expect(await machine("POST", "/box/exec", server.key, url, { command: "cat /root/word" })).toMatchObject({
      stdout: "word\n",
    });
    await machine("DELETE", "/box", server.key, url);
    expect(await ended(again, () => again.kill("SIGTERM"))).toBe(0);
    await server.stop();
  });

  test("a second Ctrl-C forces the end, and the next start works", async () => {
    const server = await startServer();
    await RLPool.create(join(REPOSITORY, "examples", "counter"), { n: 2 }, { url: server.url, apiKey: server.key });
    const code = await ended(server.process, () => {
      server.process.kill("SIGINT");
      server.process.kill("SIGINT");
      setTimeout(() => server.process.kill("SIGINT"), 5);
    });
    // Both signals may arrive as one; then it was an ordinary stop.
    expect([0, 130]).toContain(code);
    const again = spawn(COMMAND, ["up", "--listen", "127.0.0.1:0"], { env: server.variables });
    expect(await firstLine(again)).toContain("is ready at");
    expect(await ended(again, () => again.kill("SIGTERM"))).toBe(0);
    await server.stop();
  });
});

/** The last line of standard output of a program that ends. */
async function lastLine(child: ChildProcess): Promise<string> {
  let text = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  await new Promise((resolve) => child.once("close", resolve));
  return text.trimEnd().split("\n").at(-1) ?? "";
}

/** What belongs to a test server: processes with its folder in their environment, mounts under it, Sandpool's cgroups. */
function leftovers(folder: string): { descendants: string[]; mounts: string[]; cgroups: string[] } {
  const descendants = readdirSync("/proc").filter(
    (pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid && mentions(pid, folder),
  );
  const mounts = readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .filter((line) => line.includes(folder));
  return { descendants, mounts, cgroups: sandpoolCgroups() };
}

function mentions(pid: string, folder: string): boolean {
  try {
    return ["cmdline", "environ", "mountinfo"].some((file) =>
      readFileSync(`/proc/${pid}/${file}`, "latin1").includes(folder),
    );
  } catch {
    return false;
  }
}

function sandpoolCgroups(): string[] {
  const roots = ["/sys/fs/cgroup/memory/sandpool", "/sys/fs/cgroup/sandpool"].filter((root) => existsSync(root));
  return roots.flatMap((root) =>
    readdirSync(root)
      .filter((name) => statSync(join(root, name)).isDirectory())
      .map((name) => join(root, name)),
  );
}
