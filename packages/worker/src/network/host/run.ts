import { spawn } from "node:child_process";
import { TOOL_PATH } from "../../host/run.ts";
import { networkFailed } from "../fail.ts";

const LIMIT_MS = 20_000;

/**
 * Runs a host tool that reads its commands from standard input, and returns all it wrote: listings of a thousand machines are long.
 * @throws `DriverError` with its last words
 */
export function runScript(file: string, args: readonly string[], input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH: TOOL_PATH, LC_ALL: "C" },
      cwd: "/",
      timeout: LIMIT_MS,
      killSignal: "SIGKILL",
    });
    const stdout: Buffer[] = [];
    let stderr = "";
    child.stdout.on("data", (chunk: Buffer) => stdout.push(chunk));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr = (stderr + text).slice(-2_000);
    });
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    child.once("error", (error) => reject(networkFailed(`${file} cannot be run: ${error.message}`)));
    child.once("close", (code, signal) => {
      if (code === 0) resolve(Buffer.concat(stdout).toString("utf8"));
      else reject(networkFailed(`${file} ended with ${signal ?? code}: ${stderr.trim() || "it said nothing"}`));
    });
  });
}

/** Commands of `ip`, one a line; the first that fails ends it. */
export async function runIp(commands: readonly string[], netns: string | null = null): Promise<void> {
  const input = commands.map((command) => `${command}\n`).join("");
  if (netns === null) await runScript("ip", ["-batch", "-"], input);
  else await runScript("nsenter", [`--net=${netns}`, "ip", "-batch", "-"], input);
}

/** A listing of `ip` as JSON. */
export async function askIp<Entry>(...args: string[]): Promise<Entry[]> {
  const text = await runScript("ip", ["-json", ...args], "");
  return text.trim() === "" ? [] : (JSON.parse(text) as Entry[]);
}

/** One transaction: all of it or nothing. */
export async function runNft(commands: string): Promise<void> {
  await runScript("nft", ["-f", "-"], commands);
}

/** Objects of a listing of `nft`, the header left out. */
export async function askNft(...args: string[]): Promise<Record<string, Record<string, unknown>>[]> {
  const text = await runScript("nft", ["--json", "list", ...args], "");
  const { nftables } = JSON.parse(text) as { nftables: Record<string, Record<string, unknown>>[] };
  return nftables.filter((entry) => !("metainfo" in entry));
}
