import { randomBytes } from "node:crypto";
import { DriverError } from "../../driver.ts";
import type { RestoredConnection, RestoredIdentity } from "../../machine.ts";
import { refuseExit, type ShimTalk } from "../connect.ts";
import type { MachineFolders } from "../folders.ts";
import type { MachineRecord } from "../record.ts";
import { fingerprint } from "./fingerprint.ts";
import { checkFiles, checkFits, IMAGE_FOLDER, readManifest, refused } from "./manifest.ts";

/** Programs of `/etc/sandpool/fork.d` have 5 s of it. */
const THAW_LIMIT_MS = 10_000;

/**
 * Everything that can be known before anything starts.
 * @param isOwn whether this process wrote the state just now, so that it need not be read again
 */
export async function checkState(
  folders: MachineFolders,
  record: MachineRecord,
  folder: string,
  isOwn: boolean,
): Promise<void> {
  const manifest = await readManifest(folder);
  checkFits(manifest, await fingerprint(folders, record));
  if (!isOwn && manifest.files.some(({ sha256 }) => sha256 === null)) {
    throw refused(`the state ${folder} was for copies that were made at once`, "save the machine's state anew");
  }
  await checkFiles(folder, manifest);
}

/** Has the shim restore, where it waits for it. */
export async function askToRestore(talk: ShimTalk, folder: string, signal: AbortSignal): Promise<void> {
  const reply = await talk.ask({ op: "shim.restore", folder: `${folder}/${IMAGE_FOLDER}` }, signal, refuseExit);
  if (reply.ok !== true) throw unanswered("the shim refused to restore the state", reply);
}

/** The first request in a restored machine. */
export async function thaw(
  talk: ShimTalk,
  { spec }: MachineRecord,
  identity: RestoredIdentity,
  signal: AbortSignal,
): Promise<RestoredConnection["restored"]> {
  const reply = await talk.ask(
    {
      ...{ op: "thaw", generation: identity.generation, id: spec.id, hostname: spec.hostname },
      ...{ machine_id: identity.machineId, copy: identity.copy, environ: spec.environ },
      ...{ wall_clock_ms: Date.now(), entropy: randomBytes(64).toString("base64") },
    },
    AbortSignal.any([signal, AbortSignal.timeout(THAW_LIMIT_MS)]),
    refuseExit,
  );
  if (reply.ok !== true) throw unanswered(`the agent of machine ${spec.id} refused to be restored`, reply);
  const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
  const hooks = list(reply.hooks).map((hook) => hook as { name: string; exit_code: number | null });
  return { hooks, warnings: list(reply.warnings).map((text) => String(text).slice(0, 500)) };
}

function unanswered(what: string, reply: Record<string, unknown>): DriverError {
  const { message } = (reply.error ?? {}) as { message?: unknown };
  const said = typeof message === "string" ? message.slice(0, 500) : "it gave no reason";
  return new DriverError("state_failed", `${what}: ${said}`, "use one release throughout");
}
