import { execFileSync, spawnSync } from "node:child_process";
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
import { Readable } from "node:stream";
import { SandpoolError } from "@sandpool/protocol";
import fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { LiveMachine } from "../../src/machines/contract.ts";
import { machineLeftovers } from "../drivers/machines/support.ts";
import { attemptOutside } from "../drivers/support.ts";
import { makeLayer } from "../images/support.ts";
import { file, seal, tarOf, wayOut } from "./archives.ts";
import { type Outside, startOutside } from "./outside.ts";
import { bytesOf, createOn, execOf, LIMIT_MS, makeBench, numbered, run, shell, textOf } from "./support.ts";

const MIB = 2 ** 20;
const SECRET = "canary of the host";

for (const name of ["namespace", "gvisor"] as const) {
  const bench = makeBench(name);
  const [probe] = await bench.host.probe();
  const isMissing = probe?.available !== true;
  if (isMissing) console.log(`skipped: hostile files in machines of ${name}: ${probe?.reason}`);

  describe.skipIf(isMissing)(`files and archives of a machine of ${name}`, { timeout: LIMIT_MS }, () => {
    let machine: LiveMachine;
    let outside: Outside;
    /** On the host, open to everybody; inside there is a folder of that name with other content. */
    let canaries = "";

    beforeAll(async () => {
      canaries = mkdtempSync(`${tmpdir()}/sandpool-canary-`);
      plantCanary(canaries);
      machine = await createOn(bench, { diskBytes: 64 * MIB, memoryBytes: 2 ** 29 });
      outside = await startOutside();
      await shell(machine, `mkdir -p ${canaries} && chmod 777 ${canaries}`);
    }, LIMIT_MS);
    afterEach(() => {
      expect(readdirSync(canaries)).toEqual(["secret"]);
      expect(readFileSync(`${canaries}/secret`, "utf8")).toBe(SECRET);
    });
    afterAll(async () => {
      await outside.close();
      await bench.clear();
      await bench.host.close();
      expect(await machineLeftovers({ dataDir: bench.dataDir } as never)).toEqual([]);
      bench.remove();
      rmSync(canaries, { recursive: true, force: true });
    }, LIMIT_MS);

    test("class 3: a folder that turns into a link while it is copied leads nowhere outside", async () => {
      await shell(
        machine,
        `echo inside >${canaries}/secret; mkdir -p /root/race/folder; ln -s ${canaries} /root/race/link`,
      );
      await shell(machine, "echo inside >/root/race/folder/secret");
      const swap =
        "import os\nos.chdir('/root/race')\nwhile True:\n  for a, b in [('folder', 'kept'), ('link', 'folder'), ('folder', 'link'), ('kept', 'folder')]: os.rename(a, b)";
      const { id } = await machine.startExec(execOf(["/usr/bin/python3", "-c", swap]));
      const tree = await makeLayer([file("from-tree")]);
      const seen = new Set<string>();
      const done = { whole: 0, refused: 0 };
      const count = async (work: Promise<unknown>): Promise<void> => {
        const outcome = await work.catch((error: unknown) => error);
        if (outcome instanceof Error) expect(outcome).toBeInstanceOf(SandpoolError);
        done[outcome instanceof Error ? "refused" : "whole"] += 1;
      };
      // On a busy host the swapping program may stand still for long, with no folder there: what was there is read in the end.
      let rounds = 0;
      for (; rounds < 250 || (!seen.has("inside\n") && rounds < 20_000); rounds++) {
        const at = "/root/race/folder";
        await Promise.all([
          count(machine.writeFile(`${at}/from-file`, bytesOf("x"), {})),
          count(machine.writeTree(at, Readable.from([tree]), {})),
          count(machine.readFile(`${at}/secret`, {}).then(async ({ content }) => seen.add(await textOf(content)))),
          count(machine.readTree(at, {}).then(async (tar) => seen.add(String((await textOf(tar)).includes(SECRET))))),
        ]);
      }
      const disk = `${bench.dataDir}/disk.tar.zst`;
      await machine.saveDisk(disk);
      const saved = execFileSync("zstd", ["-dcq", disk], { maxBuffer: 2 ** 28 });
      await machine.signalExec(id, "KILL", true);
      await machine.waitExec(id, { collect: false });
      expect(done.whole + done.refused).toBe(4 * rounds);
      expect(done.whole).toBeGreaterThan(100);
      expect([...seen].sort()).toEqual(["false", "inside\n"]);
      expect([saved.includes("inside\n"), saved.includes(SECRET)]).toEqual([true, false]);

      const folder = mkdtempSync(`${tmpdir()}/sandpool-race-`);
      symlinkSync(canaries, `${folder}/link`);
      const { content } = await outside.machine.readFile(`${folder}/link/secret`, {});
      expect(await textOf(content)).toBe(SECRET);
      await outside.machine.writeFile(`${folder}/link/from-file`, bytesOf("x"), {});
      await outside.machine.writeTree(`${folder}/link`, Readable.from([tree]), {});
      expect(readdirSync(canaries).sort()).toEqual(["from-file", "from-tree", "secret"]);
      rmSync(folder, { recursive: true });
      plantCanary(canaries);
    });

    test("class 10: a set-id program that was uploaded, or came in an archive, gives nobody root", async () => {
      const program = readFileSync("/usr/bin/id");
      await machine.writeFile("/opt/upload", Readable.from([program]), { mode: 0o6755 });
      const packed = { name: "packed", content: program, mode: 0o6755, uid: 0, gid: 0 };
      await machine.writeTree("/opt", await tarOf([packed]), {});
      expect(await shell(machine, "stat -c %a /opt/packed")).toBe("755\n");
      for (const at of ["/opt/upload", "/opt/packed"]) {
        expect((await run(machine, [at, "-u"], { user: "1234:1234" })).text).toBe("1234\n");
      }
      const folder = mkdtempSync(`${tmpdir()}/sandpool-upload-`);
      chmodSync(folder, 0o755);
      await outside.machine.writeFile(`${folder}/upload`, Readable.from([program]), { mode: 0o6755 });
      expect(await attemptOutside(["run_setuid", `${folder}/upload`, 1234])).toEqual({ did: "0" });
      rmSync(folder, { recursive: true });
    });

    test("class 19: no path, however it is written, reaches a file of the host", async () => {
      const odd = [
        "..",
        ".",
        "",
        "a\\..\\b",
        "%2e%2e",
        "\u2025",
        "\uff0e\uff0e",
        "..\0",
        "x".repeat(255),
        "x".repeat(4096),
      ];
      const known = ["proc", "self", "1", "root", "cwd", "fd", "dev", "run", "sandpool", "etc", "tmp"];
      const aim = canaries.slice(1).split("/");
      const part = fc.oneof(fc.constantFrom(...odd), fc.constantFrom(...known), fc.constantFrom(...aim));
      const lead = fc.constantFrom(
        "/",
        "",
        "//",
        "/proc/1/root/",
        "/proc/self/cwd/",
        `${"/..".repeat(40)}/`,
        "/dev/fd/",
      );
      const tail = fc.constantFrom(`${canaries}/secret`, `${canaries}/secret/`, `${canaries}/planted`, "");
      const path = fc.tuple(lead, fc.array(part, { maxLength: 5 }), tail).map(([a, b, c]) => a + b.join("/") + c);
      const say = async (work: Promise<unknown>): Promise<string> => {
        const outcome = await work.catch((error: unknown) => error);
        if (outcome instanceof SandpoolError) expect(outcome.code).toMatch(/^(file_|permission_denied|disk_full)/);
        else expect(outcome).not.toBeInstanceOf(Error);
        return outcome instanceof SandpoolError ? "" : String(outcome);
      };
      await fc.assert(
        fc.asyncProperty(path, async (at) => {
          const read = machine.readFile(at, { length: 4096 }).then(({ content }) => textOf(content));
          expect(await say(read)).not.toContain(SECRET);
          expect(JSON.stringify(await say(machine.listFiles(at, {})))).not.toContain(SECRET);
          await say(machine.statFile(at, {}));
          await say(machine.writeFile(`${at}.planted`, bytesOf("planted"), {}));
          await say(machine.makeFolder(`${at}.made`, { parents: true }));
          await say(machine.moveFile(`${at}.made`, `${canaries}/moved`, { replace: true }));
          if (at.includes(canaries)) await say(machine.removeFile(at, { recursive: true }));
          expect(readdirSync(canaries)).toEqual(["secret"]);
          expect(readFileSync(`${canaries}/secret`, "utf8")).toBe(SECRET);
        }),
        { numRuns: 150, interruptAfterTimeLimit: 10_000, markInterruptAsFailure: false },
      );
      expect(await shell(machine, "echo works")).toBe("works\n");

      for (const at of [`${canaries}/secret`, `/usr/../${canaries}/secret`, `/proc/self/root${canaries}/secret`]) {
        expect(await textOf((await outside.machine.readFile(at, {})).content)).toBe(SECRET);
      }
      await outside.machine.writeFile(`/tmp/..${canaries}/planted`, bytesOf("planted"), {});
      await outside.machine.removeFile(`${canaries}/secret`, {});
      expect(readdirSync(canaries)).toEqual(["planted"]);
      plantCanary(canaries);
    });

    test("class 20: no archive leads out of its folder, not even inside the machine", async () => {
      await shell(machine, `rm -rf ${canaries}; mkdir ${canaries}; echo inside >${canaries}/secret`);
      for (const [what, items] of wayOut(canaries)) {
        const target = `/root/target/${what.replaceAll(/\W/g, "-")}`;
        const outcome = await machine.writeTree(target, await tarOf(items), {}).catch((error: unknown) => error);
        expect({ what, outcome }).toMatchObject({ what, outcome: { code: "file_invalid" } });
        const said = await shell(machine, `ls ${canaries}; cat ${canaries}/secret`);
        expect({ what, said }).toEqual({ what, said: "secret\ninside\n" });
        expect(readdirSync(canaries)).toEqual(["secret"]);
      }
    });

    test("class 21: an archive that unpacks to more than the disk is refused, and this side stays small", async () => {
      const size = 96 * MIB;
      const [head] = [(await makeLayer([file("zeros", "")])).subarray(0, 512)];
      head.write(`${size.toString(8).padStart(11, "0")}\0`, 124);
      seal(head);
      const bomb = (): Readable =>
        Readable.from([head, ...Array.from({ length: 96 }, () => Buffer.alloc(MIB)), Buffer.alloc(1024)]);
      const before = process.memoryUsage().rss;
      const refused = machine.writeTree("/root/bomb", bomb(), {});
      await expect(refused).rejects.toMatchObject({ code: "disk_full" });
      expect((process.memoryUsage().rss - before) / MIB).toBeLessThan(250);
      await machine.removeFile("/root/bomb", { recursive: true });
      const upload = machine.writeFile("/root/large", numbered(size), {});
      await expect(upload).rejects.toMatchObject({ code: "disk_full" });
      expect(await shell(machine, "ls -A /root | grep -c -e large -e part; echo works")).toBe("0\nworks\n");

      const target = mkdtempSync(`${tmpdir()}/sandpool-unpacked-`);
      expect(await outside.machine.writeTree(target, bomb(), {})).toEqual({ entries: 1, bytes: size });
      rmSync(target, { recursive: true });
    });

    test("class 22: a header that says what cannot be is refused, and the plain one is taken", async () => {
      const lies: [string, (header: Buffer) => void][] = [
        ["a size below zero", (header) => header.fill(0xff, 124, 136)],
        ["a size beyond everything", (header) => header.fill(0x7f, 125, 136).fill(0x80, 124, 125)],
        ["a size in letters", (header) => header.write("zzzzzzzzzzz", 124)],
        ["an old sparse file", (header) => header.write("S", 156)],
        ["a volume's continuation", (header) => header.write("M", 156)],
        ["an unknown kind", (header) => header.write("Z", 156)],
        ["a wrong sum", (header) => header.write("x", 0)],
      ];
      const plain = await makeLayer([file("file", "some")]);
      expect(await machine.writeTree("/root/plain", Readable.from([plain]), {})).toEqual({ entries: 1, bytes: 4 });
      for (const [what, lie] of lies) {
        const tar = Buffer.from(plain);
        lie(tar.subarray(0, 512));
        if (what !== "a wrong sum") seal(tar);
        const done = await machine.writeTree("/root/lies", Readable.from([tar]), {}).catch((error: unknown) => error);
        expect({ what, done }).toMatchObject({ what, done: { code: "file_invalid" } });
      }
      // A name ends at its first NUL.
      const tar = Buffer.from(plain);
      tar.write("a\0../../x", 0);
      seal(tar);
      expect(await machine.writeTree("/root/named", Readable.from([tar]), {})).toEqual({ entries: 1, bytes: 4 });
      expect(await shell(machine, "ls -A /root/named /root/x 2>/dev/null || true")).toBe("/root/named:\na\n");
    });

    test("class 22: whatever bytes an archive has, it is unpacked or refused, and nothing else happens", async () => {
      const items = [file("a", "one"), ...wayOut(canaries).flatMap(([, one]) => one)];
      const whole = await makeLayer(items);
      const change = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
      await fc.assert(
        fc.asyncProperty(fc.array(change, { minLength: 1, maxLength: 6 }), fc.boolean(), async (changes, isSealed) => {
          const tar = Buffer.from(whole);
          for (const [at, byte] of changes) {
            tar[at] = byte;
            if (isSealed) seal(tar.subarray(at - (at % 512), at - (at % 512) + 512));
          }
          const done = await machine.writeTree("/root/fuzz", Readable.from([tar]), {}).catch((error: unknown) => error);
          if (done instanceof Error)
            expect(done).toMatchObject({ code: expect.stringMatching(/^(file_|not_a|is_a|disk)/) });
          expect(readdirSync(canaries)).toEqual(["secret"]);
        }),
        { numRuns: 150, interruptAfterTimeLimit: 8_000, markInterruptAsFailure: false },
      );
      expect(await shell(machine, "echo works")).toBe("works\n");
    });

    test("class 23: a device in an archive is refused; a read of what never ends or never answers is refused at once", async () => {
      for (const type of ["character-device", "block-device", "fifo"] as const) {
        const refused = machine.writeTree("/root/special", await tarOf([{ name: "odd", type }]), {});
        await expect(refused).rejects.toMatchObject({ code: "file_invalid" });
      }
      const bind = "import socket; socket.socket(socket.AF_UNIX).bind('/root/odd/socket')";
      await shell(
        machine,
        `mkdir /root/odd && cd /root/odd && mkfifo fifo && echo x >plain && /usr/bin/python3 -c "${bind}"`,
      );
      for (const at of [
        "/root/odd/fifo",
        "/root/odd/socket",
        "/root/odd",
        "/dev/zero",
        "/dev/random",
        "/dev/tty",
        "/dev/ptmx",
      ]) {
        await expect(machine.readFile(at, {}), at).rejects.toMatchObject({
          code: expect.stringMatching(/^(file_|permission)/),
        });
        await expect(machine.writeFile(at, bytesOf("x"), {}), at).rejects.toMatchObject({
          code: expect.stringMatching(/^(file_|permission)/),
        });
      }
      const tar = await textOf(await machine.readTree("/root/odd", {}));
      expect([tar.includes("plain"), tar.includes("fifo"), tar.includes("socket")]).toEqual([true, false, false]);
      // What a reader that only opens and reads would do.
      expect((await run(machine, ["/usr/bin/timeout", "0.2", "cat", "/root/odd/fifo"])).exitCode).toBe(124);
    });
  });
}

describe.skipIf(process.geteuid?.() !== 0)("without isolation", { timeout: LIMIT_MS }, () => {
  test("class 20: the same archives reach the canary where they are unpacked by name", async () => {
    const canaries = mkdtempSync(`${tmpdir()}/sandpool-canary-`);
    const script = [
      "import sys, tarfile",
      "options = {'filter': 'fully_trusted'} if hasattr(tarfile, 'fully_trusted_filter') else {}",
      "with tarfile.open(fileobj=sys.stdin.buffer, mode='r|') as tar: tar.extractall(sys.argv[1], **options)",
    ].join("\n");
    const reached: string[] = [];
    for (const [what, items] of wayOut(canaries)) {
      plantCanary(canaries);
      const target = mkdtempSync(`${tmpdir()}/sandpool-unpacked-`);
      const input = await makeLayer(items);
      spawnSync("unshare", ["--mount", "/usr/bin/python3", "-c", script, target], { input });
      const isWhole = readFileSync(`${canaries}/secret`, "utf8") === SECRET;
      if (!isWhole || readdirSync(canaries).length > 1) reached.push(what);
      rmSync(target, { recursive: true });
    }
    expect(reached).toEqual(wayOut(canaries).map(([what]) => what));
    rmSync(canaries, { recursive: true });
  });
});

/** The canary as it was: an attempt outside has reached it. Open to everybody. */
function plantCanary(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  writeFileSync(`${folder}/secret`, SECRET);
  chmodSync(`${folder}/secret`, 0o666);
}
