import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { attemptOutside } from "../support.ts";
import { type Guest, LIMIT_MS, machineLeftovers, makeMachineHost, makeRootfs, startGuest } from "./support.ts";

// Roots as no import would leave them (../../images/): what the drivers and their runtimes do with one by themselves.
for (const name of ["namespace", "gvisor"] as const) {
  const host = makeMachineHost(name);
  const probe = await host.driver.probeMachines();
  if (!probe.available) console.log(`skipped: hostile roots in machines of the ${name} driver: ${probe.reason}`);

  describe.skipIf(!probe.available)(`a hostile root in a machine of ${name}`, { timeout: LIMIT_MS }, () => {
    let canaries = "";

    beforeAll(() => {
      canaries = mkdtempSync(`${tmpdir()}/sandpool-canary-`);
      chmodSync(canaries, 0o755);
    });
    afterAll(async () => {
      for (const id of await host.driver.list()) await host.driver.remove(id);
      rmSync(canaries, { recursive: true, force: true });
      expect(await machineLeftovers(host)).toEqual([]);
      host.remove();
    });

    /** A root with these links, each to a place on the host that everybody may write. */
    function makeRoot(what: string, links: Record<string, string>): { folder: string; aim: string } {
      const folder = `${canaries}/${what}`;
      const aim = `${canaries}/aim-${what}`;
      makeRootfs(folder);
      mkdirSync(aim);
      chmodSync(aim, 0o777);
      writeFileSync(`${aim}/file`, "canary");
      chmodSync(`${aim}/file`, 0o666);
      for (const [path, target] of Object.entries(links)) {
        mkdirSync(dirname(`${folder}/${path}`), { recursive: true });
        symlinkSync(`${"../".repeat(12)}${aim.slice(1)}${target}`, `${folder}/${path}`);
      }
      return { folder, aim };
    }

    function expectUntouched(aim: string): void {
      expect(readdirSync(aim)).toEqual(["file"]);
      expect(readFileSync(`${aim}/file`, "utf8")).toBe("canary");
    }

    const start = (folder: string): Promise<Guest> => startGuest(host, { image: { kind: "rootfs", folder } });

    test.each(["dev", "proc", "sys", "tmp", "run", "sandpool"])(
      "class 4, 5, 6, 7: an image whose /%s is a link is refused, or the link leads nowhere outside",
      async (place) => {
        const { folder, aim } = makeRoot(place, { [place]: "" });
        const outcome = await start(folder).then(
          (guest) => guest.run(["/bin/sh", "-c", `echo x >/${place}/planted; echo ran`]),
          (error: Error) => error.message,
        );
        expect(outcome).toMatch(/^ran\n$|is a link or a file|could not be started|failed/);
        expectUntouched(aim);
        expect(await attemptOutside(["write_new", `${folder}/${place}/planted`, "x"])).toEqual({ did: null });
        expect(readdirSync(aim).sort()).toEqual(["file", "planted"]);
      },
    );

    test("class 4, 5, 7: devices that are links are not those of the machine, whose terminals are its own", async () => {
      const devices = ["dev/null", "dev/zero", "dev/tty", "dev/console", "dev/ptmx", "dev/pts/0"];
      const { folder, aim } = makeRoot("devices", Object.fromEntries(devices.map((path) => [path, "/file"])));
      const guest = await start(folder);
      const script = devices.map((path) => `echo planted >/${path}`).join("; ");
      expect(await guest.shell(`(${script}) 2>/dev/null; [ -c /dev/null ] && echo device`)).toBe("device\n");
      const tty = { rows: 24, columns: 80 };
      expect(await guest.run(["/bin/sh", "-c", "echo typed >/dev/tty"], { tty })).toBe("typed\r\n");
      expectUntouched(aim);
      expect(await attemptOutside(["write_file", `${folder}/dev/null`, "planted"])).toEqual({ did: "written" });
      expect(readFileSync(`${aim}/file`, "utf8")).toContain("planted");
    });

    test("class 6: a made-up /proc is not the machine's, and what is written to it goes nowhere", async () => {
      const { folder, aim } = makeRoot("made-up", {
        "proc/self": "",
        "proc/sys/kernel": "",
        "proc/1": "",
        "sys/fs": "",
      });
      for (const file of ["proc/mounts", "proc/filesystems"]) writeFileSync(`${folder}/${file}`, "made up");
      const guest = await start(folder);
      expect(await guest.shell("cat /proc/mounts /proc/filesystems")).not.toContain("made up");
      const write =
        "echo x >/proc/self/attr/exec; echo x >/proc/self/planted; echo x >/proc/sys/kernel/file; echo x >/sys/fs/file";
      expect(await guest.shell(`(${write}) 2>/dev/null; cat /proc/self/comm`)).toBe("cat\n");
      expectUntouched(aim);
      expect(await attemptOutside(["write_file", `${folder}/proc/sys/kernel/file`, "planted"])).toEqual({
        did: "written",
      });
      expect(readFileSync(`${aim}/file`, "utf8")).toBe("planted");
    });
  });
}
