import { once } from "node:events";
import { rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { afterAll, describe, expect, test } from "vitest";
import { makeHome } from "../../sdk/test/support/server.ts";
import { sandpool, sandpoolInTerminal } from "./support/command.ts";

const { folder, variables } = makeHome();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("wrong use ends with 2 and says what was received, what was expected and what to do", {
  timeout: 30_000,
}, () => {
  test.each([
    [["up", "--lisen", "x"], /unknown option '--lisen' \(Did you mean --listen\?\); expected: sandpool up .*--listen/],
    [["pol"], /unknown command 'pol' \(Did you mean pool\?\); expected: sandpool up\|down/],
    [["env", "check"], /missing required argument 'dir'; expected: sandpool env check <dir>/],
    [
      ["env", "check", "x", "--n", "0"],
      /'--n <count>' argument '0' is invalid. Expected a whole number from 1 to 10000/,
    ],
    [["pool", "logs", "p", "--row", "1e3"], /argument '1e3' is invalid. Expected a whole number from 0/],
    [["pool", "list", "extra"], /too many arguments/],
    [["up", "--tls-cert", "c.pem"], /--tls-cert was given without --tls-key; expected both/],
  ])("%j", async (args, message) => {
    const ended = await sandpool(variables, ...args);
    expect(ended).toMatchObject({ code: 2, stdout: "" });
    expect(ended.stderr).toMatch(message);
    expect(ended.stderr).toMatch(/\n {2}do: /);
  });

  test("with --json the error is one document on standard output", async () => {
    const ended = await sandpool(variables, "env", "check", "x", "--json", "--n", "many");
    expect(ended).toMatchObject({ code: 2, stderr: "" });
    expect(JSON.parse(ended.stdout)).toEqual({
      error: {
        code: "usage",
        message: expect.stringContaining("'many'"),
        hint: expect.stringContaining("--help"),
        details: {},
      },
    });
  });

  test("escape sequences in an argument are shown, not obeyed", async () => {
    const ended = await sandpool(variables, "pool", "\u001b]0;owned\u0007");
    expect(ended.code).toBe(2);
    expect(ended.stderr).toContain("\\x1b]0;owned\\x07");
    expect(ended.stderr).not.toContain("\u001b");
  });
});

describe("without a server", { timeout: 30_000 }, () => {
  test("a command that needs one ends with 1 and says how to start it", async () => {
    const ended = await sandpool(variables, "pool", "list");
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/No server: .*\n {2}do: Start a server with "sandpool up"/);
    const asJson = await sandpool(variables, "pool", "list", "--json");
    expect(JSON.parse(asJson.stdout)).toMatchObject({ error: { code: "no_server_configured" } });
  });

  test("down finds nothing to stop, which is no failure", async () => {
    const ended = await sandpool(variables, "down", "--json");
    expect(ended.code).toBe(0);
    expect(JSON.parse(ended.stdout)).toMatchObject({ stopped: false, pid: null });
  });

  test("up refuses to listen to others without TLS", async () => {
    const ended = await sandpool(variables, "up", "--listen", "0.0.0.0:0");
    expect(ended.code).toBe(1);
    expect(ended.stderr).toMatch(/listen_refused/);
    expect(ended.stderr).toMatch(/--insecure/);
  });
});

test("an address in use is named, with what to do", { timeout: 30_000 }, async () => {
  const holder = createServer().listen(0, "127.0.0.1");
  await once(holder, "listening");
  const { port } = holder.address() as AddressInfo;
  const refused = await sandpool(variables, "up", "--listen", `127.0.0.1:${port}`);
  holder.close();
  expect(refused.code).toBe(1);
  expect(refused.stderr).toMatch(new RegExp(`EADDRINUSE.*127\\.0\\.0\\.1:${port}.*\\n {2}do: .*another --listen`));
});

describe("colours", { timeout: 30_000 }, () => {
  test("are drawn in a terminal, and not with NO_COLOR", async () => {
    expect((await sandpoolInTerminal(variables, "doctor")).stdout).toContain("\u001b[3");
    expect((await sandpoolInTerminal({ ...variables, NO_COLOR: "1" }, "doctor")).stdout).not.toContain("\u001b[");
  });

  test("are never in a pipe", async () => {
    expect((await sandpool(variables, "doctor")).stdout).not.toContain("\u001b");
  });
});

test("version is the same everywhere", { timeout: 30_000 }, async () => {
  const plain = await sandpool(variables, "version");
  const asJson = await sandpool(variables, "version", "--json");
  const flag = await sandpool(variables, "--version");
  expect(plain).toMatchObject({ code: 0, stdout: flag.stdout });
  expect(JSON.parse(asJson.stdout)).toEqual({ version: plain.stdout.trim(), node: process.version });
});
