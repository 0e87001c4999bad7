import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export const REPOSITORY = fileURLToPath(new URL("../../../../", import.meta.url));
export const COMMAND = join(REPOSITORY, "bin", "sandpool");

export interface TestServer {
  url: string;
  key: string;
  process: ChildProcess;
  /** Its own configuration and data; nothing of the account is touched. */
  folder: string;
  variables: NodeJS.ProcessEnv;
  /** SIGTERM, then the exit code once it is gone. */
  stop: () => Promise<number | null>;
}

/** A folder with its own configuration and data, and the variables that lead there. */
export function makeHome(): { folder: string; variables: NodeJS.ProcessEnv } {
  const folder = mkdtempSync(join(tmpdir(), "sandpool-test-"));
  const { SANDPOOL_URL: _url, SANDPOOL_API_KEY: _key, FORCE_COLOR: _color, ...rest } = process.env;
  return {
    folder,
    variables: { ...rest, XDG_CONFIG_HOME: join(folder, "config"), XDG_DATA_HOME: join(folder, "data") },
  };
}

/** `sandpool up` as a user runs it, on a free port. */
export async function startServer(...options: string[]): Promise<TestServer> {
  const { folder, variables } = makeHome();
  const child = spawn(COMMAND, ["up", "--listen", "127.0.0.1:0", "--json", "--log-level", "warn", ...options], {
    env: variables,
  });
  const ready = await firstLine(child);
  const { url } = JSON.parse(ready) as { url: string };
  const credentials = readFileSync(join(folder, "config", "sandpool", "credentials.json"), "utf8");
  const { key } = JSON.parse(credentials) as { key: string };
  const stop = async (): Promise<number | null> => {
    const code = await ended(child, () => child.kill("SIGTERM"));
    rmSync(folder, { recursive: true, force: true });
    return code;
  };
  return { url, key, process: child, folder, variables, stop };
}

/** The first line of standard output; rejects with standard error if the program ends before. */
export function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    let complaint = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      complaint += text;
    });
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      if (output.includes("\n")) resolve(output.slice(0, output.indexOf("\n")));
    });
    child.once("close", (code) => reject(new Error(`ended with ${code} before its first line: ${complaint}`)));
  });
}

/** Does something to a process and waits until it has ended. */
export function ended(child: ChildProcess, act: () => void): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
  return new Promise((resolve) => {
    child.once("close", (code) => resolve(code));
    act();
  });
}
