import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { useMachines } from "../../../sdk/test/support/machines.ts";
import { type Ended, sandpool, sandpoolWithInput } from "../support/command.ts";
import { atTerminal } from "../support/terminal.ts";

const bench = useMachines();
const folder = mkdtempSync(join(tmpdir(), "sandpool-copy-"));
afterAll(() => rmSync(folder, { recursive: true }));

const cp = (...args: string[]): Promise<Ended> => sandpool(bench().server.variables, "machine", "cp", ...args);
const inside = async (command: string): Promise<string> =>
  (await bench().machines.exec(bench().box, { command })).check().stdout;
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

describe("machine cp", () => {
  test("copies a file in and out under the name given, or into a folder under its own", async () => {
    const bytes = randomBytes(300_000);
    writeFileSync(join(folder, "data"), bytes, { mode: 0o750 });
    expect(await cp(join(folder, "data"), "box:/root/named")).toEqual({ code: 0, stdout: "", stderr: "" });
    expect((await cp(join(folder, "data"), "box:/root/")).code).toBe(0);
    expect((await cp(join(folder, "data"), "box:/root/new/")).code).toBe(0);
    const sums = await inside("cd /root; sha256sum named data new/data | cut -c1-64; stat -c %a named");
    expect(sums).toBe(`${sha256(bytes)}\n`.repeat(3).concat("750\n"));
    mkdirSync(join(folder, "into"));
    const { stdout } = await cp("--json", "box:/root/named", join(folder, "into"));
    expect(JSON.parse(stdout)).toEqual({ target: join(folder, "into/named"), bytes: 300_000, sha256: sha256(bytes) });
    expect(readFileSync(join(folder, "into/named"))).toEqual(bytes);
    expect(statSync(join(folder, "into/named")).mode & 0o777).toBe(0o750);
  });

  test("copies folders with all in them, and says what it left out, escaped", async () => {
    mkdirSync(join(folder, "tree/sub"), { recursive: true });
    writeFileSync(join(folder, "tree/sub/f"), "deep");
    await cp(join(folder, "tree"), "box:/root/tree");
    await cp(join(folder, "tree"), "box:/root/tree");
    expect(await inside("cat /root/tree/sub/f /root/tree/tree/sub/f")).toBe("deepdeep");
    await inside("cd /root/tree && rm -r tree && ln -s /etc/passwd \"$(printf 'l\\033[2J')\"");
    const { code, stderr } = await cp("box:/root/tree", join(folder, "back"));
    expect([code, readdirSync(join(folder, "back"))]).toEqual([0, ["sub"]]);
    expect(stderr).toBe("left out l\\x1b[2J: it is a link out of the folder, to /etc/passwd\n");
  });

  test("takes standard input and gives standard output, byte for byte; a folder comes as tar", async () => {
    const { variables } = bench().server;
    const bytes = randomBytes(2_000_000);
    expect((await sandpoolWithInput(variables, bytes, "machine", "cp", "-", "box:/root/piped")).code).toBe(0);
    const { stdout } = await sandpoolWithInput(variables, "", "machine", "cp", "box:/root/piped", "-");
    expect(sha256(stdout)).toBe(sha256(bytes));
    await inside("mkdir /root/tarred; touch /root/tarred/f");
    const tar = await sandpoolWithInput(variables, "", "machine", "cp", "box:/root/tarred", "-");
    expect(tar.stdout.toString("latin1", 0, 512)).toContain("ustar");
  });

  test("class 56: a file shown at a terminal commands it nothing", async () => {
    await inside("printf '\\033]0;title\\007x' > /root/hostile");
    const { output } = await atTerminal(bench().server.variables, [], "machine", "cp", "box:/root/hostile", "-");
    expect(output).toBe("\\x1b]0;title\\x07x");
  });

  test.each([
    [["box:/a", "box:/b"], 2],
    [["a", "b"], 2],
    [["box:relative", "b"], 2],
    [["-", "box:/root/"], 2],
    [["box:/root/nowhere", "here"], 1],
    [["nowhere-local", "box:/root/x"], 1],
    [["box:/root", "/dev/null/x"], 1],
  ])("refuses %j with what to do, and leaves nothing", async (args, code) => {
    const ended = await cp(...args);
    expect([ended.code, ended.stdout]).toEqual([code, ""]);
    expect(ended.stderr).toMatch(/^sandpool: .+\n {2}do: .+\n$/);
    expect(existsSync("here")).toBe(false);
  });
});
