import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { discoverEndpoint } from "../../src/http/credentials.ts";

let folder: string;
let variables: Record<string, string>;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpool-sdk-"));
  variables = { XDG_CONFIG_HOME: folder };
  mkdirSync(join(folder, "sandpool"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (text: string): void => writeFileSync(join(folder, "sandpool", "credentials.json"), text);

describe("finding the server and its key", () => {
  test("the credentials file names both", () => {
    write('{"url": "http://127.0.0.1:7070/", "key": "sp_file"}');
    expect(discoverEndpoint({}, variables)).toEqual({ url: "http://127.0.0.1:7070", key: "sp_file" });
  });

  test("SANDPOOL_URL with SANDPOOL_API_KEY goes before the file", () => {
    write('{"url": "http://127.0.0.1:7070", "key": "sp_file"}');
    Object.assign(variables, { SANDPOOL_URL: "https://box.example:7443", SANDPOOL_API_KEY: "sp_env" });
    expect(discoverEndpoint({}, variables)).toEqual({ url: "https://box.example:7443", key: "sp_env" });
  });

  test("the file's key is never sent to another url", () => {
    write('{"url": "http://127.0.0.1:7070", "key": "sp_file"}');
    expect(() => discoverEndpoint({}, { ...variables, SANDPOOL_URL: "http://other.example" })).toThrow(/No key for/);
    expect(() => discoverEndpoint({ url: "http://127.0.0.1:7071" }, variables)).toThrow(/No key for/);
  });

  test("a key alone in the environment is not sent to the file's url", () => {
    write('{"url": "http://127.0.0.1:7070", "key": "sp_file"}');
    expect(discoverEndpoint({}, { ...variables, SANDPOOL_API_KEY: "sp_env" }).key).toBe("sp_file");
  });

  test("without a url it says how to start a server", () => {
    write('{"key": "sp_file"}');
    expect(() => discoverEndpoint({}, variables)).toThrow(
      expect.objectContaining({ code: "no_server_configured", hint: expect.stringContaining("sandpool up") }),
    );
  });

  test("a broken file and a wrong url are named", () => {
    write("not json");
    expect(() => discoverEndpoint({}, variables)).toThrow(expect.objectContaining({ code: "bad_credentials_file" }));
    write("{}");
    expect(() => discoverEndpoint({ url: "ftp://x" }, variables)).toThrow(/"ftp:\/\/x"; expected http/);
  });
});
