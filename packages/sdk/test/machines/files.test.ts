import { createHash } from "node:crypto";
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { NotFoundError } from "../../src/index.ts";
import { useMachines } from "../support/machines.ts";

const MIB = 1024 * 1024;
const bench = useMachines();
const folder = mkdtempSync(join(tmpdir(), "sandpool-files-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function sha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

describe("a file", () => {
  test("row 23: is written once its bytes and hash are there, and read back exactly", async () => {
    const { machines, box } = bench();
    const content = Buffer.from([0, 255, 10, 13, 0]);
    const written = await machines.files.write(box, "/root/new/folder/f", content, { mode: 0o640 });
    expect(written).toEqual({ bytes: 5, sha256: createHash("sha256").update(content).digest("hex") });
    expect(await machines.files.read(box, "/root/new/folder/f")).toEqual(content);
    expect(await machines.files.stat(box, "/root/new/folder/f")).toMatchObject({ kind: "file", size: 5, mode: 0o640 });
    expect(await machines.files.read(box, "/root/new/folder/f", { offset: 1, length: 3 })).toEqual(
      content.subarray(1, 4),
    );
    expect(await machines.files.read(box, "/root/new/folder/f", { length: 0 })).toEqual(Buffer.alloc(0));
  });

  test("that is empty is one", async () => {
    const { machines, box } = bench();
    await machines.files.write(box, "/root/empty", "");
    expect(await machines.files.read(box, "/root/empty")).toEqual(Buffer.alloc(0));
  });

  test("row 25: of any size goes up and down through flat memory", async () => {
    const { machines, box } = bench();
    const local = join(folder, "large");
    const handle = await open(local, "w");
    for (let part = 0; part < 128; part += 1)
      await handle.write(createHash("sha512").update(`${part}`).digest(), 0, 64, part * MIB);
    await handle.truncate(128 * MIB);
    await handle.close();
    const before = process.memoryUsage.rss();
    let peak = before;
    const onProgress = (): void => {
      peak = Math.max(peak, process.memoryUsage.rss());
    };
    const up = await machines.files.upload(box, local, "/root/large", { onProgress });
    const down = await machines.files.download(box, "/root/large", join(folder, "back"), { onProgress });
    expect(up).toEqual({ bytes: 128 * MIB, sha256: await sha256(local) });
    expect(down).toEqual(up);
    expect(await sha256(join(folder, "back"))).toBe(await sha256(local));
    expect(peak - before).toBeLessThan(100 * MIB);
  });

  test("whose source fails leaves nothing, and the old one stays", async () => {
    const { machines, box } = bench();
    await machines.files.write(box, "/root/kept", "old");
    const failing = (async function* () {
      yield Buffer.from("new");
      throw new Error("source is gone");
    })();
    await expect(machines.files.write(box, "/root/kept", failing)).rejects.toThrow("source is gone");
    expect(await machines.files.read(box, "/root/kept")).toEqual(Buffer.from("old"));
  });

  test("that cannot be downloaded whole leaves nothing here", async () => {
    const { machines, box } = bench();
    await expect(machines.files.download(box, "/root/nowhere", join(folder, "x"))).rejects.toBeInstanceOf(
      NotFoundError,
    );
    expect(existsSync(join(folder, "x"))).toBe(false);
    expect(readdirSync(folder).filter((name) => name.endsWith(".part"))).toEqual([]);
  });

  test("keeps the mode it has here, and belongs to the user who is named", async () => {
    const { machines, box } = bench();
    writeFileSync(join(folder, "script"), "#!/bin/sh\necho ran\n", { mode: 0o755 });
    await machines.exec(box, { command: "mkdir -m 1777 -p /root/../tmp" });
    await machines.files.upload(box, join(folder, "script"), "/tmp/script", { user: "1000:1000" });
    expect(await machines.files.stat(box, "/tmp/script")).toMatchObject({ uid: 1000, gid: 1000, mode: 0o755 });
    expect((await machines.exec(box, { argv: ["/tmp/script"] })).check().stdout).toBe("ran\n");
  });
});

describe("folders", () => {
  test("go up and come down whole", async () => {
    const { machines, box } = bench();
    const local = join(folder, "tree");
    mkdirSync(join(local, "a/b"), { recursive: true });
    writeFileSync(join(local, "a/b/f"), "deep", { mode: 0o700 });
    await machines.files.upload(box, local, "/root/tree");
    expect((await machines.exec(box, { command: "cat /root/tree/a/b/f" })).check().stdout).toBe("deep");
    await machines.exec(box, { command: "ln -s /etc/passwd /root/tree/out; ln -s a/b /root/tree/in" });
    const report = await machines.files.download(box, "/root/tree", join(folder, "copy"));
    expect(report).toMatchObject({ skipped: [{ path: "out" }] });
    expect(readdirSync(join(folder, "copy")).sort()).toEqual(["a", "in"]);
    expect(readFileSync(join(folder, "copy/in/f"), "utf8")).toBe("deep");
    expect(statSync(join(folder, "copy/a/b/f")).mode & 0o777).toBe(0o700);
  });

  test("are listed whole however many entries they have", async () => {
    const { machines, box } = bench();
    await machines.exec(box, { command: "mkdir /root/many && cd /root/many && seq 10500 | xargs touch" });
    const entries = await machines.files.list(box, "/root/many");
    expect(new Set(entries.map(({ name }) => name)).size).toBe(10_500);
    expect(entries).toHaveLength(10_500);
  });

  test("and files are made, moved and removed", async () => {
    const { machines, box } = bench();
    await machines.files.make(box, "/root/m/n");
    await machines.files.write(box, "/root/m/n/f", "x");
    await machines.files.move(box, "/root/m/n/f", "/root/m/g");
    await expect(machines.files.move(box, "/root/m/n", "/root/m/g")).rejects.toMatchObject({ code: "file_exists" });
    expect((await machines.files.list(box, "/root/m", { depth: 2 })).map(({ path, kind }) => [path, kind])).toEqual([
      ["/root/m/g", "file"],
      ["/root/m/n", "folder"],
    ]);
    await machines.files.remove(box, "/root/m", { recursive: true });
    await expect(machines.files.stat(box, "/root/m")).rejects.toMatchObject({ code: "file_not_found" });
  });

  test("are watched until the loop is left", async () => {
    const { machines, box } = bench();
    await machines.files.make(box, "/root/watched");
    const changes = machines.files.watch(box, "/root/watched", { recursive: true });
    const first = changes.next();
    // The watch stands once it tells of something; until then files are made anew.
    let made = 0;
    const making = setInterval(() => {
      made += 1;
      void machines.files.write(box, `/root/watched/f${made}`, "x");
    }, 100);
    const { value } = await first;
    clearInterval(making);
    expect(value).toMatchObject({ kind: "created", path: expect.stringMatching(/^\/root\/watched\//) });
    await changes.return();
  });
});
