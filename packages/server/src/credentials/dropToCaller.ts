import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { SandpoolError } from "@sandpool/protocol";

const CHILD_TIMEOUT_MS = 10_000;

export interface SudoCaller {
  uid: number;
  gid: number;
}

/** Who called sudo, if this process was started through it as root. */
export function sudoCaller(environment: NodeJS.ProcessEnv = process.env): SudoCaller | null {
  if (process.geteuid?.() !== 0) return null;
  const uid = Number(environment.SUDO_UID);
  const gid = Number(environment.SUDO_GID);
  return Number.isInteger(uid) && Number.isInteger(gid) && uid > 0 && gid > 0 ? { uid, gid } : null;
}

/**
 * Runs one function of credentialsFile.ts as the caller of sudo. Root itself never opens a path in a user's folder:
 * a link planted there would be followed with root's rights.
 */
export async function runAsCaller(
  caller: SudoCaller,
  action: "readCredentials" | "writeCredentials" | "removeUrl",
  path: string | null,
  argument: unknown = null,
): Promise<unknown> {
  const { source, type } = await readFileModule();
  const call = `const input = ${JSON.stringify({ path, argument })};
    try {
      const result = await ${action}(input.path ?? credentialsPath(true), input.argument);
      process.stdout.write(JSON.stringify({ result: result ?? null }));
    } catch (error) {
      process.stdout.write(JSON.stringify({ error: error.message }));
    }`;
  const output = await runNode(caller, type, `${source}\n${call}`);
  const { result, error } = JSON.parse(output) as { result?: unknown; error?: string };
  if (error === undefined) return result;
  throw new SandpoolError("credentials_refused", error, {
    hint: "remove it, or make it a plain file of the user's own",
  });
}

/** The module's text: TypeScript in the repository, JavaScript when built. */
async function readFileModule(): Promise<{ source: string; type: string }> {
  const typescript = import.meta.url.endsWith(".ts");
  const url = new URL(typescript ? "./credentialsFile.ts" : "./credentialsFile.js", import.meta.url);
  return { source: await readFile(url, "utf8"), type: typescript ? "module-typescript" : "module" };
}

/** The program travels over standard input, so no key stands in a process list. */
function runNode(caller: SudoCaller, type: string, program: string): Promise<string> {
  const executable = process.platform === "linux" ? "/proc/self/exe" : process.execPath;
  const child = spawn(executable, [`--input-type=${type}`, "-"], {
    uid: caller.uid,
    gid: caller.gid,
    cwd: "/",
    env: { PATH: "/usr/bin:/bin" },
    stdio: ["pipe", "pipe", "pipe"],
    timeout: CHILD_TIMEOUT_MS,
    killSignal: "SIGKILL",
  });
  return new Promise((resolve, reject) => {
    let output = "";
    let complaint = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text: string) => (complaint = (complaint + text).slice(-2_000)));
    child.once("error", (cause) => reject(childFailed(caller, String(cause), cause)));
    child.once("close", (code, signal) => {
      if (code === 0 && output !== "") resolve(output);
      else reject(childFailed(caller, `it ended with ${signal ?? code}: ${complaint}`));
    });
    child.stdin.on("error", () => {});
    child.stdin.end(program);
  });
}

function childFailed(caller: SudoCaller, reason: string, cause?: unknown): SandpoolError {
  return new SandpoolError("credentials_refused", `the child of uid ${caller.uid} could not run: ${reason}`, {
    hint: "give the key to that user yourself, or start the server without sudo",
    ...(cause === undefined ? {} : { cause }),
  });
}
