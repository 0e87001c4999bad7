import { chown, mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { HostFolders } from "../../host/folders.ts";
import { ownIdentity } from "../../host/identity.ts";
import { ensureFolder, makeFolder } from "../../host/make-folder.ts";
import { runTool, TOOL_PATH } from "../../host/run.ts";
import { claimUidSlot, UIDS_PER_SLOT } from "../../host/uids/claim.ts";
import { DriverError } from "../driver.ts";
import type { MachineSpec } from "../machine.ts";
import type { MachineFolders } from "./folders.ts";
import { makeMachineGroups } from "./groups.ts";
import { systemRoots } from "./host-image.ts";
import type { MachineKind, MachineRuntime, Plan, PlanInput } from "./kind.ts";
import { type MachineRecord, writeJson } from "./record.ts";
import { madeWith } from "./states/fingerprint.ts";

/** How long a machine that was asked to stop may take, unless the request says it. */
const STOP_MS = 10_000;

export interface PrepareInput {
  spec: MachineSpec;
  argv: readonly string[];
  kind: MachineKind;
  runtime: MachineRuntime;
  host: HostFolders;
  folders: MachineFolders;
  /** Folders that serve all machines. */
  shared: { hostImage: string; mountPoints: string };
  agentPath: string;
  /** Its container waits for a state. */
  restore?: boolean;
  signal: AbortSignal;
}

/** Makes all that a machine needs, step by step. Whoever calls it removes what an abort or a failure leaves half made. */
export async function prepareMachine(input: PrepareInput): Promise<void> {
  const { spec, kind, host, folders, signal } = input;
  await takeId(host, folders, spec.id);
  const slot = await claimUidSlot(host.uids, { process: ownIdentity(), key: host.key, sandboxId: spec.id });
  const { firstUid } = slot;
  const made = kind.canFork ? await madeWith(input.runtime, input.agentPath) : undefined;
  const record: MachineRecord = { spec, firstUid, slot: slot.slot, ...(made === undefined ? {} : { made }) };
  await writeJson(folders.record, record);
  signal.throwIfAborted();
  const groups = await makeMachineGroups(host.key, spec, kind.hostProcesses(spec.processes));
  signal.throwIfAborted();
  await makeData(folders);
  await kind.makeLayer(folders, spec, firstUid);
  signal.throwIfAborted();
  const planInput: PlanInput = {
    ...{ spec, argv: input.argv, folders, firstUid, groups, runtime: input.runtime, agentPath: input.agentPath },
    imageFolder: spec.image.kind === "host" ? input.shared.hostImage : spec.image.folder,
    mountPoints: input.shared.mountPoints,
    systemFolders: spec.image.kind === "host" ? systemRoots() : [],
  };
  const plan = kind.plan(planInput);
  await makeFiles(planInput, plan);
  signal.throwIfAborted();
  await writeJson(folders.shimSettings, {
    ...shimSettings(planInput, plan),
    restore: input.restore === true,
  });
}

/** Takes the id by making its folder, which fails if anything is there. */
async function takeId(host: HostFolders, folders: MachineFolders, id: string): Promise<void> {
  await ensureFolder(host.machines, 0o711);
  await makeFolder(folders.folder, 0o711).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new DriverError("sandbox_spec_invalid", `the machine id ${id} is in use`, "choose an id that was never used");
  });
}

/** It may be there, with a saved disk in it. */
async function makeData(folders: MachineFolders): Promise<void> {
  await mkdir(dirname(folders.data), { recursive: true, mode: 0o711 });
  await ensureFolder(folders.data, 0o700);
}

async function makeFiles(input: PlanInput, plan: Plan): Promise<void> {
  const { folders, firstUid } = input;
  const { folder } = folders;
  const targets = plan.mounts.flatMap((mount) => (mount.kind === "check" ? [] : [mount.target]));
  const files = new Set([`${folder}/agent`, `${folder}/runsc`]);
  for (const path of [`${folder}/system`, folders.bundle, ...targets])
    if (!files.has(path)) await makeFolder(path, 0o711);
  for (const path of [...files, ...["empty", "userns", "netns"].map((name) => `${folder}/${name}`)])
    await writeFile(path, "", { flag: "wx", mode: 0o444 });
  await makeFolder(folders.runtimeRoot, 0o700);
  await chown(folders.runtimeRoot, firstUid, firstUid);
  const config = `${folders.bundle}/config.json`;
  await writeJson(config, plan.config);
  await chown(config, firstUid, firstUid);
  const made = await runTool("mkfifo", ["-m", "600", ...["in", "out", "err"].map((name) => `${folder}/${name}`)]);
  if (made.code !== 0) throw new Error(`mkfifo in ${folder} failed: ${made.stderr.trim()}`);
}

/** `shim.json`; see docs/internals/machines.md. */
function shimSettings(input: PlanInput, plan: Plan): object {
  const { spec, folders, groups, firstUid } = input;
  return {
    id: spec.id,
    runtime: { ...plan.runtime, root: folders.runtimeRoot },
    bundle: folders.bundle,
    uids: { base: firstUid, count: UIDS_PER_SLOT },
    user_namespace: plan.userNamespace,
    network: spec.network.kind === "own",
    environ: { PATH: TOOL_PATH },
    stop_ms: STOP_MS,
    mounts: plan.mounts,
    groups: groups?.folders ?? [],
    memory_group: groups?.memoryFolder ?? null,
  };
}
