import { chmod, chown, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { runTool } from "../../../host/run.ts";
import { DriverError } from "../../driver.ts";
import { escapeForLog } from "../../escape.ts";
import type { Checkpoint, CheckpointOptions, Quiet } from "../../machine.ts";
import type { MachineFolders } from "../folders.ts";
import { type MachineRecord, writeJson } from "../record.ts";
import { fingerprint } from "./fingerprint.ts";
import { hashFile, IMAGE_FOLDER, MANIFEST_FILE, type StateManifest } from "./manifest.ts";
import { isPaused } from "./suspend.ts";

const WRITE_LIMIT_MS = 600_000;

export interface CheckpointInput {
  shim: string;
  folders: MachineFolders;
  record: MachineRecord;
  /** Where the state appears. */
  folder: string;
  session: Quiet;
  options: CheckpointOptions;
  warn: (message: string) => void;
}

/** Writes the state of a machine beside its place, seals it, and puts it there. A failure leaves the machine as it was, and no file. */
export async function writeCheckpoint(input: CheckpointInput): Promise<Checkpoint> {
  const draft = `${input.folder}.draft`;
  try {
    const needs = await fingerprint(input.folders, input.record);
    await makeDraft(draft, input.record.firstUid);
    const pausedMs = await write(input, `${draft}/${IMAGE_FOLDER}`);
    const files = await seal(draft, input.options.transient === true);
    const { id } = input.record.spec;
    const manifest: StateManifest = {
      ...{ version: 1, machine: id, generation: input.record.generation ?? 0, created_at: Date.now(), ...needs },
      spec: { ...input.record.spec, environ: {} },
      files,
      parent: input.options.parent,
    };
    await writeJson(`${draft}/${MANIFEST_FILE}`, manifest);
    await rename(draft, input.folder);
    if (input.options.transient !== true) await sync(dirname(input.folder));
    return { bytes: files.reduce((sum, { bytes }) => sum + bytes, 0), pausedMs, manifest };
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    if (error instanceof DriverError) throw error;
    throw failed(`the state could not be written to ${input.folder}: ${(error as Error).message}`, error);
  }
}

/** Outside only root passes; inside, the machine's own root writes. */
async function makeDraft(draft: string, firstUid: number): Promise<void> {
  await rm(draft, { recursive: true, force: true });
  await mkdir(dirname(draft), { recursive: true, mode: 0o700 });
  await mkdir(draft, { mode: 0o700 });
  await mkdir(`${draft}/${IMAGE_FOLDER}`, { mode: 0o700 });
  await chown(`${draft}/${IMAGE_FOLDER}`, firstUid, firstUid);
}

/** Between silence and thaw, which always comes: also after a failure the machine goes on. */
async function write(input: CheckpointInput, image: string): Promise<number> {
  const { shim, folders, record, session } = input;
  const { id } = record.spec;
  const work = async (): Promise<void> => {
    const args = [folders.folder, "--checkpoint", image, "--leave-running", id];
    const { code, signal, stderr } = await runTool(shim, args, { timeoutMs: WRITE_LIMIT_MS });
    if (code === 0) return;
    const said = escapeForLog(Buffer.from(stderr)).trim().slice(-1000);
    throw failed(`the runtime could not write the state of machine ${id} (${signal ?? code}): ${said}`);
  };
  if (isPaused(folders)) {
    await work();
    return 0;
  }
  await session.quiesce();
  const began = performance.now();
  try {
    await work();
  } finally {
    const late = (error: Error): void =>
      input.warn(`machine ${id} did not answer after its state was written: ${error.message}`);
    await session.thaw(performance.now() - began).catch(late);
  }
  return performance.now() - began;
}

/** What was written belongs to root from here on, and any runtime that is shown the folder can read it. */
async function seal(draft: string, isTransient: boolean): Promise<StateManifest["files"]> {
  const folder = `${draft}/${IMAGE_FOLDER}`;
  await chown(folder, 0, 0);
  await chmod(folder, 0o755);
  const names = (await readdir(folder)).toSorted();
  const files = await Promise.all(
    names.map(async (name) => {
      const path = `${folder}/${name}`;
      await chown(path, 0, 0);
      await chmod(path, 0o444);
      if (!isTransient) await sync(path);
      const { size } = await stat(path);
      return { name, bytes: size, sha256: isTransient ? null : await hashFile(path) };
    }),
  );
  if (!isTransient) for (const path of [folder, draft]) await sync(path);
  return files;
}

async function sync(path: string): Promise<void> {
  const handle = await open(path, "r");
  await handle.sync().finally(() => handle.close());
}

function failed(message: string, cause?: unknown): DriverError {
  return new DriverError(
    "state_failed",
    message,
    "the machine goes on; see that there is room for its memory and disk, then try again",
    {},
    { cause },
  );
}
