import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startServer, type TestServer } from "../../../sdk/test/support/server.ts";
import { makeLayer } from "../../../worker/test/images/support.ts";
import { sandpool } from "../support/command.ts";

const isRoot = process.geteuid?.() === 0;
if (!isRoot) console.log("skipped: images need root");

describe.skipIf(!isRoot)("images in the terminal", { timeout: 60_000 }, () => {
  let server: TestServer;
  let folder = "";

  beforeAll(async () => {
    server = await startServer();
    folder = await mkdtemp(join(tmpdir(), "sandpool-image-"));
    writeFileSync(join(folder, "good.tar"), await makeLayer([{ name: "etc/x", content: "1" }]));
    writeFileSync(join(folder, "bad.tar"), await makeLayer([{ name: "etc/\u001b[2J", type: "fifo" }]));
  }, 60_000);
  afterAll(async () => {
    await server?.stop();
    await rm(folder, { recursive: true, force: true });
  }, 60_000);

  const run = (...args: string[]): ReturnType<typeof sandpool> => sandpool(server.variables, "image", ...args);

  test("a tar becomes an image that is listed, and is gone when it is removed", async () => {
    const made = await run("import", "mine", join(folder, "good.tar"));
    expect([made.code, made.stdout]).toEqual([0, expect.stringMatching(/^sha256:[0-9a-f]{64}\n$/)]);
    expect(made.stderr).toContain("a plain root file system");
    const { stdout } = await run("list");
    expect(stdout).toMatch(/^NAME +KIND +ON DISK +ID/);
    expect(stdout).toMatch(/^mine +imported/m);
    expect(stdout).toMatch(/^python +recipe +- +\(not built\)/m);
    expect((await run("remove", "mine")).code).toBe(2);
    expect((await run("remove", "-y", "mine")).stdout).toBe("Removed mine.\n");
    const { images } = JSON.parse((await run("list", "--json")).stdout) as { images: { name: string }[] };
    expect(images.map(({ name }) => name)).toEqual(["host", "node", "python", "pytorch"]);
  });

  test("class 56: what an image is called inside reaches the terminal only escaped, with what to do", async () => {
    const { code, stderr } = await run("import", "bad", join(folder, "bad.tar"));
    expect(code).toBe(1);
    expect(stderr).toContain("image_failed");
    expect(stderr).not.toMatch(/(?![\n\t])[\p{Cc}\p{Cf}]/u);
  });

  test("what cannot be is said in one line with a hint", async () => {
    for (const args of [
      ["build", "nothing"],
      ["pull", "10.0.0.1/a"],
      ["remove", "-y", "nothing"],
      ["pull", "A B"],
    ]) {
      const { code, stderr } = await run(...args);
      expect(code).toBe(1);
      expect(stderr).toMatch(/^sandpool: .+\n {2}do: .+\n$/);
    }
    expect((await run("import", "x", folder)).code).toBe(2);
  });
});
