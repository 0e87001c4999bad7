import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { escapeForLog } from "../drivers/escape.ts";
import { TOOL_PATH } from "../host/run.ts";
import { networkFailed } from "./fail.ts";
import { type HostNames, outerAddress, servicePorts, serviceUid } from "./host/plan.ts";
import type { ServiceSettings } from "./service/main.ts";

const heapMebibytes = 256;
const openFiles = 16_384;
/** Threads: those of Node and its pool. */
const processes = 64;

/** Where a server's service is spoken to. */
export interface ServicePlace {
  folder: string;
  control: string;
  log: string;
}

export function servicePlace(own: string): ServicePlace {
  const folder = `${own}/network`;
  return { folder, control: `${folder}/control.sock`, log: `${folder}/service.log` };
}

/** Starts the service, which outlives this process and shares no descriptor, session, variable or right with it. */
export async function startService(place: ServicePlace, names: HostNames, serviceIndex: number): Promise<ChildProcess> {
  await mkdir(place.folder, { recursive: true, mode: 0o700 });
  const settings: ServiceSettings = {
    address: outerAddress(serviceIndex),
    ports: servicePorts,
    control: place.control,
    uid: serviceUid(serviceIndex),
    machinePrefix: names.machinePrefix,
  };
  const log = openSync(place.log, "w", 0o600);
  try {
    const child = spawn("setpriv", [...confinement(), process.execPath, ...nodeArguments(), JSON.stringify(settings)], {
      stdio: ["ignore", "ignore", log],
      detached: true,
      env: { PATH: TOOL_PATH },
      cwd: "/",
    });
    child.on("error", () => undefined);
    child.unref();
    return child;
  } finally {
    closeSync(log);
  }
}

/** What it may do at most, while it is still root: take a low port and become somebody else. */
function confinement(): string[] {
  const kept = "-all,+setuid,+setgid,+net_bind_service";
  return [
    ...["--no-new-privs", "--clear-groups", `--bounding-set=${kept}`, "--inh-caps=-all", "--"],
    ...["prlimit", `--nofile=${openFiles}`, "--core=0", `--nproc=${processes}`, "--"],
  ];
}

function nodeArguments(): string[] {
  // Beside this file it is a .ts in a checkout and a .js in a package.
  const main = new URL(import.meta.url.endsWith(".ts") ? "./service/main.ts" : "./service/main.js", import.meta.url);
  return [`--max-old-space-size=${heapMebibytes}`, "--disable-warning=ExperimentalWarning", fileURLToPath(main)];
}

export function serviceFailure(place: ServicePlace, child: ChildProcess): Error {
  let said = "";
  try {
    said = escapeForLog(readFileSync(place.log)).trim().slice(-1_000);
  } catch {
    // It was removed.
  }
  return networkFailed(
    `the name service ended at once (${child.signalCode ?? child.exitCode ?? "unknown"}): ${said || "it said nothing"}`,
    "another program may hold its address or ports (ss -lnp); the message is the service's own",
  );
}
