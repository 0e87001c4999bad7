import { spawnSync } from "node:child_process";
import { chmod, chown, mkdir, readdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { runAsCaller, sudoCaller } from "../src/credentials/dropToCaller.ts";
import { readCredentials } from "../src/index.ts";
import { startTestServer, temporaryFolder } from "./startTestServer.ts";

async function contentOf(path: string): Promise<unknown> {
  return JSON.parse(await readFile(path, "utf8"));
}

describe("the credentials file", () => {
  test("holds url and key, for the user alone, and the key works", async () => {
    const folder = join(await temporaryFolder(), "config", "sandpool");
    const path = join(folder, "credentials.json");
    const server = await startTestServer({ credentialsFile: path });
    expect(await contentOf(path)).toEqual({ url: server.running.url, key: server.running.key });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(folder)).mode & 0o777).toBe(0o700);
    expect(await readdir(folder)).toEqual(["credentials.json"]);
    expect((await server.send({ path: "/v1/pools" })).status).toBe(200);
  });

  test("stands under XDG_CONFIG_HOME by default", async () => {
    const home = await temporaryFolder();
    vi.stubEnv("XDG_CONFIG_HOME", home);
    vi.stubEnv("SUDO_UID", "");
    const server = await startTestServer({ ownCredentialsFile: true });
    expect(await contentOf(join(home, "sandpool", "credentials.json"))).toMatchObject({ url: server.running.url });
    vi.unstubAllEnvs();
  });

  test("loses its url at a clean stop and keeps the key for the next start", async () => {
    const path = join(await temporaryFolder(), "credentials.json");
    const dataDir = await temporaryFolder();
    const first = await startTestServer({ credentialsFile: path, dataDir });
    await first.running.close();
    expect(await contentOf(path)).toEqual({ key: first.running.key });
    const second = await startTestServer({ credentialsFile: path, dataDir });
    expect(second.running.key).toBe(first.running.key);
    expect(await contentOf(path)).toEqual({ url: second.running.url, key: first.running.key });
  });

  test("keeps the url of a server that started later", async () => {
    const path = join(await temporaryFolder(), "credentials.json");
    const first = await startTestServer({ credentialsFile: path });
    const second = await startTestServer({ credentialsFile: path });
    await first.running.close();
    expect(await contentOf(path)).toEqual({ url: second.running.url, key: second.running.key });
  });

  test("with a key the store does not know gets a new one", async () => {
    const path = join(await temporaryFolder(), "credentials.json");
    await writeFile(path, '{"key":"sp_of_another_folder"}', { mode: 0o600 });
    const server = await startTestServer({ credentialsFile: path });
    expect(server.running.key).toMatch(/^sp_[\w-]{43}$/);
    expect((await server.send({ path: "/v1/pools", key: "sp_of_another_folder" })).status).toBe(401);
  });

  test("that is a link is refused and its target stays untouched", async () => {
    const folder = await temporaryFolder();
    const target = join(folder, "target");
    await writeFile(target, "canary", { mode: 0o600 });
    await symlink(target, join(folder, "credentials.json"));
    const started = startTestServer({ credentialsFile: join(folder, "credentials.json") });
    await expect(started).rejects.toMatchObject({ code: "credentials_refused" });
    await expect(started).rejects.toThrow("is a link");
    expect(await readFile(target, "utf8")).toBe("canary");
  });

  test("in a folder that is a link, or that others may write, is refused", async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, "real"), { mode: 0o700 });
    await symlink(join(folder, "real"), join(folder, "linked"));
    const linked = startTestServer({ credentialsFile: join(folder, "linked", "credentials.json") });
    await expect(linked).rejects.toThrow("is a link");
    await mkdir(join(folder, "open"));
    await chmod(join(folder, "open"), 0o777);
    const open = startTestServer({ credentialsFile: join(folder, "open", "credentials.json") });
    await expect(open).rejects.toThrow("may be written by others");
    expect(await readdir(join(folder, "real"))).toEqual([]);
  });

  test("that others may read is refused when it is read", async () => {
    const path = join(await temporaryFolder(), "credentials.json");
    await writeFile(path, '{"key":"x"}', { mode: 0o644 });
    await expect(readCredentials(path)).rejects.toThrow("has mode 644, expected 600");
  });

  test("that is a fifo is refused without waiting for a writer", async () => {
    const path = join(await temporaryFolder(), "credentials.json");
    spawnSync("mkfifo", ["-m", "600", path]);
    await expect(readCredentials(path)).rejects.toThrow("is no regular file");
  });
});

describe.runIf(process.geteuid?.() === 0)("under sudo", () => {
  const caller = { uid: 65_534, gid: 65_534 };

  test("the caller is taken from the environment of a root process only", () => {
    expect(sudoCaller({ SUDO_UID: "1000", SUDO_GID: "1000" })).toEqual({ uid: 1000, gid: 1000 });
    expect(sudoCaller({ SUDO_UID: "0", SUDO_GID: "0" })).toBeNull();
    expect(sudoCaller({})).toBeNull();
  });

  test("the file is the caller's own, written with the caller's rights", async () => {
    const folder = await temporaryFolder();
    await chown(folder, caller.uid, caller.gid);
    const path = join(folder, "sandpool", "credentials.json");
    await runAsCaller(caller, "writeCredentials", path, { url: "http://127.0.0.1:1", key: "sp_x" });
    const { uid, gid, mode } = await stat(path);
    expect([uid, gid, mode & 0o777]).toEqual([caller.uid, caller.gid, 0o600]);
    expect(await runAsCaller(caller, "readCredentials", path)).toEqual({ url: "http://127.0.0.1:1", key: "sp_x" });
    await runAsCaller(caller, "removeUrl", path, "http://127.0.0.1:1");
    expect(await contentOf(path)).toEqual({ key: "sp_x" });
  });

  test("a folder only root may write is not written", async () => {
    const folder = await temporaryFolder();
    await chmod(folder, 0o755);
    const written = runAsCaller(caller, "writeCredentials", join(folder, "credentials.json"), { key: "sp_x" });
    await expect(written).rejects.toMatchObject({ code: "credentials_refused" });
    expect(await readdir(folder)).toEqual([]);
  });

  test("a link the caller planted is not followed", async () => {
    const folder = await temporaryFolder();
    const target = join(folder, "roots");
    await writeFile(target, "canary", { mode: 0o600 });
    await mkdir(join(folder, "home"));
    await symlink(target, join(folder, "home", "credentials.json"));
    await chown(join(folder, "home"), caller.uid, caller.gid);
    await chmod(folder, 0o755);
    const path = join(folder, "home", "credentials.json");
    await expect(runAsCaller(caller, "writeCredentials", path, { key: "sp_x" })).rejects.toThrow("is a link");
    expect(await readFile(target, "utf8")).toBe("canary");
  });
});
