import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findAgent } from "../../src/agent/find.ts";
import {
  type Guest,
  LIMIT_MS,
  type MachineHost,
  machineLeftovers,
  makeMachineHost,
  startGuest,
} from "../drivers/machines/support.ts";
import { attemptOutside } from "../drivers/support.ts";
import { folder, type Item, link, makeLayer, makeSave, makeStore, type StoreBench } from "./support.ts";

/** A shell with its libraries, as an image has them. */
function shell(): Item[] {
  const libraries = execFileSync("ldd", ["/bin/sh"], { encoding: "utf8" }).match(/\/\S+/g) ?? [];
  const programs = ["/bin/sh", "/bin/cat", "/bin/ls", "/bin/id"];
  const more = execFileSync("ldd", programs.slice(1), { encoding: "utf8" }).match(/=> (\/\S+)/g) ?? [];
  const paths = new Set([...programs, ...libraries, ...more.map((line) => line.slice(3))]);
  return [...paths]
    .filter((path) => existsSync(path) && !path.endsWith(":"))
    .map((path) => ({ name: path.slice(1), content: readFileSync(path), mode: 0o755 }));
}

/** What a program makes of an image that follows links and keeps modes. */
async function unpackByName(items: readonly Item[]): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), "sandpool-unpacked-"));
  chmodSync(folder, 0o755);
  execFileSync("tar", ["--extract", "--preserve-permissions", "--directory", folder], {
    input: await makeLayer(items),
  });
  return folder;
}

for (const name of ["namespace", "gvisor"] as const) {
  const host: MachineHost = makeMachineHost(name);
  const probe = await host.driver.probeMachines();
  if (!probe.available) console.log(`skipped: images in machines of the ${name} driver: ${probe.reason}`);

  describe.skipIf(!probe.available)(`an image in a machine of ${name}`, { timeout: LIMIT_MS * 2 }, () => {
    let bench: StoreBench;
    let canaries = "";

    beforeAll(async () => {
      bench = await makeStore();
      canaries = mkdtempSync(join(tmpdir(), "sandpool-canary-"));
    });
    afterAll(async () => {
      for (const id of await host.driver.list()) await host.driver.remove(id);
      expect(await machineLeftovers(host)).toEqual([]);
      expect(readdirSync(canaries)).toEqual([]);
      host.remove();
      await bench.remove();
      rmSync(canaries, { recursive: true });
    });

    async function start(items: readonly Item[]): Promise<Guest> {
      await bench.import("image", await makeLayer(items));
      const { image, drivers } = await bench.store.resolve("image");
      expect(drivers[name].allowed).toBe(true);
      return await startGuest(host, { image });
    }

    test("class 4 to 7: whatever stands at /dev, /proc, /sys, /run, /tmp and /sandpool, the machine has its own, and nothing leads outside", async () => {
      const guest = await start([
        ...shell(),
        link("dev", canaries),
        link("proc", canaries),
        link("sys", "../../../../../../../../sys"),
        link("run", `..${canaries}`),
        link("tmp", canaries),
        link("sandpool", canaries),
        link("etc/resolv.conf", `${canaries}/resolv.conf`),
      ]);
      const said = await guest.shell(
        "for f in dev run tmp; do echo x >/$f/planted; done; echo y >>/etc/resolv.conf; cat /proc/self/stat | cat >/dev/null && echo ran; ls /dev",
      );
      expect(said).toContain("ran");
      expect(said.split("\n")).toEqual(expect.arrayContaining(["null", "pts", "urandom"]));
      expect(readdirSync(canaries)).toEqual([]);
      const outside = await unpackByName([link("dev", canaries)]);
      expect(await attemptOutside(["write_new", `${outside}/dev/planted`, "x"])).toEqual({ did: null });
      expect(readdirSync(canaries)).toEqual(["planted"]);
      rmSync(join(canaries, "planted"));
      rmSync(outside, { recursive: true });
    });

    test("class 4, 5: hostile devices of an image are not in the machine", async () => {
      const guest = await start([
        ...shell(),
        { name: "dev/null", type: "symlink", linkname: "/proc/sys/kernel/core_pattern" },
        { name: "dev/console", type: "character-device" },
        { name: "dev/pts/0", type: "character-device" },
        folder("proc/sys/kernel"),
        { name: "proc/sys/kernel/core_pattern", content: "fake" },
      ]);
      const before = readFileSync("/proc/sys/kernel/core_pattern", "utf8");
      expect(
        await guest.shell("echo '|x' >/dev/null; [ -c /dev/null ] && echo device; cat /proc/sys/kernel/core_pattern"),
      ).not.toContain("fake");
      expect(readFileSync("/proc/sys/kernel/core_pattern", "utf8")).toBe(before);
    });

    test("class 10: a set-id program of an image gives nobody root", async () => {
      const items = shell().map((item) => (item.name === "bin/id" ? { ...item, mode: 0o6755 } : item));
      const guest = await start([
        ...items,
        { name: "etc/passwd", content: "root:x:0:0::/root:/bin/sh\nu:x:1000:1000::/:/bin/sh\n" },
      ]);
      expect(await guest.run(["/bin/id", "-u"], { user: "u" })).toBe("1000\n");
      expect(await guest.run(["/bin/id", "-u"])).toBe("0\n");
      const outside = await unpackByName(items);
      expect(await attemptOutside(["run_setuid", `${outside}/bin/id`, 1000])).toEqual({ did: "0" });
      rmSync(outside, { recursive: true });
    });

    test("class 1, 12: an image that names a descriptor as its folder, or an odd user, runs nothing with it", async () => {
      const guest = await start(shell());
      const layer = await makeLayer([{ name: "etc/x" }]);
      const folders = ["/proc/self/fd/7", "/proc/self/fd/../fd/9", "/proc/thread-self/fd/8/../../../.."];
      const users = ["+0", "0x0", "1000:", "root:root "];
      const configs = [...folders.map((one) => ({ WorkingDir: one })), ...users.map((one) => ({ User: one }))];
      for (const config of configs) {
        const what = "User" in config ? "user" : "cwd";
        const imported = await bench.import("odd", await makeSave([layer], config)).catch((error: unknown) => error);
        if (imported instanceof Error) {
          expect(imported).toMatchObject({ code: "image_failed" });
          continue;
        }
        const { cwd, user } = await bench.store.resolve("odd");
        const refused = guest.run(["/bin/ls"], { cwd, user });
        await expect(refused, JSON.stringify(config)).rejects.toMatchObject({ code: "exec_failed", details: { what } });
      }
    });

    test("an image without /etc, /tmp, a shell and python runs what it has, and its files belong to who the image says", async () => {
      // A static program that says what arguments it takes.
      const content = readFileSync(findAgent() ?? "");
      const guest = await start([
        { name: "only", content, mode: 0o755 },
        { name: "of-user", uid: 1000, gid: 1000 },
      ]);
      const id = await guest.start(["/only", "--odd"]);
      const { head: outcome } = await guest.channel.ask({ op: "exec.wait", id, collect: false });
      expect(outcome.exit_code).toBe(64);
      const { head } = await guest.channel.ask({ op: "file.list", path: "/", depth: 1, user: null });
      const entries = head.entries as { name: string; uid: number; kind: string }[];
      expect(entries.find((entry) => entry.name === "of-user")?.uid).toBe(1000);
      expect(entries.map((entry) => entry.name)).toEqual(
        expect.arrayContaining(["dev", "etc", "proc", "run", "sys", "tmp"]),
      );
    });

    test("one unpacked image serves several machines, each with its own changes, and stays as it is", async () => {
      const items = [...shell(), { name: "etc/x", content: "from the image\n" }];
      const guests = [await start(items), await start(items)];
      expect(await guests[0]?.shell("echo mine >/etc/x; cat /etc/x")).toBe("mine\n");
      expect(await guests[1]?.shell("cat /etc/x")).toBe("from the image\n");
      expect(readFileSync(`${await bench.root("image")}/etc/x`, "utf8")).toBe("from the image\n");
      const used = await bench.store.resolve("image");
      await expect(
        bench.store.remove(
          "image",
          guests.map(({ id }) => id),
        ),
      ).rejects.toThrow("2 machines still use");
      expect((await bench.store.resolve("image")).id).toBe(used.id);
    });
  });
}
