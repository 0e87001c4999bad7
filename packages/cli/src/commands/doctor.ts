import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Capabilities, formatSize } from "@sandpool/protocol";
import { type Sandpool, SandpoolError } from "sandpool";
import { EXIT } from "../output/failure.ts";
import { type Output, safe } from "../output/output.ts";
import { findRunningServer } from "../server/running.ts";

interface ServerFacts {
  running: boolean;
  url: string | null;
  problem: string | null;
  hint: string | null;
}

/** Says what this host can run and what it lacks; exit code 1 when no driver can run a pool or the server refuses us. */
export async function doctor(output: Output): Promise<number> {
  const { client, facts } = await findServer();
  const capabilities = client === null ? await probeHost() : await client.capabilities();
  const isolating = capabilities.drivers.some((driver) => driver.available && driver.name !== "unisolated");
  const ok = isolating && facts.problem === null;
  if (output.json) output.document({ ok, server: facts, capabilities });
  else print(output, facts, capabilities, isolating);
  return ok ? EXIT.ok : EXIT.failed;
}

async function findServer(): Promise<{ client: Sandpool | null; facts: ServerFacts }> {
  const none: ServerFacts = { running: false, url: null, problem: null, hint: null };
  try {
    const client = await findRunningServer();
    if (client === null) return { client, facts: none };
    await client.listPools();
    return { client, facts: { running: true, url: client.url, problem: null, hint: null } };
  } catch (error) {
    if (!(error instanceof SandpoolError)) throw error;
    return { client: null, facts: { ...none, problem: error.message, hint: error.hint ?? null } };
  }
}

/** What a server on this host could do, asked of a worker that runs nothing. */
async function probeHost(): Promise<Capabilities> {
  const { createWorker } = await import("@sandpool/worker");
  const folder = await mkdtemp(join(tmpdir(), "sandpool-doctor-"));
  try {
    const worker = await createWorker({ dataDir: folder });
    try {
      return await worker.capabilities();
    } finally {
      await worker.close();
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function print(output: Output, facts: ServerFacts, capabilities: Capabilities, isolating: boolean): void {
  const { colors } = output;
  const mark = (good: boolean): string => (good ? colors.green("ok     ") : colors.red("missing"));
  const say = (good: boolean, name: string, detail: string, hint: string | null): void => {
    output.line(`${mark(good)}  ${safe(name).padEnd(16)} ${safe(detail)}`);
    if (!good && hint !== null) output.line(`${" ".repeat(26)}${colors.dim("do:")} ${safe(hint)}`);
  };
  output.line(
    `Sandpool ${safe(capabilities.version)}, Node ${safe(capabilities.node)}, ${safe(capabilities.platform)}, kernel ${safe(capabilities.kernel)}`,
  );
  if (facts.problem !== null) say(false, "server", facts.problem, facts.hint);
  else if (facts.running) say(true, "server", `answers at ${facts.url} and knows this key`, null);
  else output.line(`-        ${"server".padEnd(16)} none runs; start one with "sandpool up"`);
  for (const driver of capabilities.drivers)
    say(driver.available, driver.name, driver.reason ?? "available", driver.hint);
  const { cgroup, user_namespaces: namespaces, limits } = capabilities;
  say(
    cgroup.writable,
    "cgroups",
    `version ${cgroup.version ?? "none"}, controllers ${cgroup.controllers.join(" ") || "none"}`,
    "Without writable cgroups memory is bounded by RLIMIT_AS.",
  );
  say(namespaces.available, "user namespaces", namespaces.reason ?? "available", null);
  for (const tool of capabilities.tools) {
    const found = tool.path !== null;
    const detail = found
      ? `${tool.path} ${tool.version ?? ""}`.trimEnd()
      : `absent; for ${tool.needed_for}: ${tool.hint ?? ""}`;
    output.line(`${found ? mark(true) : colors.dim("-      ")}  ${safe(tool.name).padEnd(16)} ${safe(detail)}`);
  }
  output.line(`-        ${"limits".padEnd(16)} ${limits.cpus} processors, ${formatSize(limits.memory_bytes)} memory`);
  output.line();
  output.line(
    isolating
      ? colors.green("This host can run isolated pools.")
      : colors.red("No driver can isolate pools here; see above."),
  );
}
