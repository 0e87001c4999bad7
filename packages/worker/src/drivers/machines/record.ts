import { open, readFile, rename } from "node:fs/promises";
import type { MachineSpec } from "../machine.ts";
import type { MachineFolders } from "./folders.ts";

/** What the driver has to know of a machine after a restart of the server: `machine.json` in its folder. */
export interface MachineRecord {
  spec: MachineSpec;
  /** Of the host uid range. */
  firstUid: number;
  slot: number;
  /** How often it was restored. */
  generation?: number;
  /** What it was made with; a restored machine needs the same. Missing in records of earlier releases. */
  made?: MadeWith;
}

export interface MadeWith {
  runtime: { name: string; version: string; sha256: string };
  agentSha256: string;
}

export async function readRecord(folders: MachineFolders): Promise<MachineRecord | null> {
  return await readJson<MachineRecord>(folders.record);
}

/** Null: there is no such file, or it was cut off in the making. */
export async function readJson<Value>(file: string): Promise<Value | null> {
  try {
    return JSON.parse(await readFile(file, "utf8")) as Value;
  } catch {
    return null;
  }
}

/** Written beside the file, synced, and renamed onto it. */
export async function writeJson(file: string, value: unknown): Promise<void> {
  const draft = `${file}.draft`;
  const handle = await open(draft, "w", 0o600);
  try {
    await handle.writeFile(JSON.stringify(value));
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(draft, file);
}
