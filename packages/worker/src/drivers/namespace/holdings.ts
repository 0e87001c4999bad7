import { rm, stat } from "node:fs/promises";
import { removeGroups } from "../../host/cgroups/remove.ts";
import { serverGroup } from "../../host/cgroups/shard.ts";
import { sleep } from "../../host/concurrency.ts";
import { type HostFolders, writeOwner } from "../../host/folders.ts";
import { makeFolder } from "../../host/make-folder.ts";
import { DriverError } from "../driver.ts";
import { claimIds, type SandboxIds, subordinateIds } from "./identity.ts";
import type { Launched } from "./launch.ts";
import type { NamespaceMode } from "./mode.ts";
import { deleteContainer, killContainer } from "./runtime.ts";

const KILL_LIMIT_MS = 5_000;
const KILL_AGAIN_MS = 50;

/** All that one sandbox holds on the host, from before the first of it exists. */
export interface Holdings {
  id: string;
  mode: NamespaceMode;
  runtimeRoot: string;
  folder: string;
  /** Relative to the controllers' roots; null without cgroups. */
  groupPath: string | null;
  ids: SandboxIds;
  launched: Launched | null;
  /** Whatever still makes something of it; a removal waits for it. */
  pending: Promise<void>;
}

/** Takes the id by making its folder, which fails if it is taken, then the uids. */
export async function hold(folders: HostFolders, id: string, mode: NamespaceMode): Promise<Holdings> {
  const folder = `${folders.sandboxes}/${id}`;
  await makeFolder(folder, 0o711).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new DriverError("sandbox_spec_invalid", `the sandbox id ${id} is in use`, "choose an id that was never used");
  });
  try {
    await writeOwner(folder);
    const ids = mode.mode === "root" ? await claimIds(folders, id) : subordinateIds();
    const groupPath = mode.cgroups === null ? null : `${serverGroup(folders.key)}/${id}`;
    return {
      id,
      mode,
      runtimeRoot: folders.runtimeRoot,
      folder,
      groupPath,
      ids,
      launched: null,
      pending: Promise.resolve(),
    };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Kills and frees, in the order in which nothing can be used again before it is empty: processes, groups, folder, uids. */
export async function freeHoldings(holdings: Holdings): Promise<void> {
  await holdings.pending.catch(() => undefined);
  const left = [...(await endProcesses(holdings)), ...(await freeGroups(holdings))];
  if (left.length > 0) {
    // The uid range stays claimed: a range that still runs something must never be given to another sandbox.
    throw new DriverError(
      "sandbox_cleanup_failed",
      `sandbox ${holdings.id} could not be removed; left: ${left.join(", ")}`,
      "a process in uninterruptible sleep blocks it; the next start of the server tries again",
      { left },
    );
  }
  await rm(holdings.folder, { recursive: true, force: true });
  await holdings.ids.release();
}

async function endProcesses({ launched, mode, runtimeRoot, id }: Holdings): Promise<string[]> {
  if (launched === null) return [];
  launched.channel.destroy();
  const ended = launched.ended.then(() => true);
  const deadline = performance.now() + KILL_LIMIT_MS;
  while (!hasEnded(launched) && performance.now() < deadline) {
    // A kill right after the launch finds no container yet: again, until the runtime has ended.
    await killContainer(mode.runtime, runtimeRoot, id);
    await Promise.race([ended, sleep(KILL_AGAIN_MS)]);
  }
  launched.process.kill("SIGKILL");
  // The runtime forgets its container when it ends by itself, and only then.
  if ((await stat(`${runtimeRoot}/${id}`).catch(() => null)) === null) return [];
  const deleted = await deleteContainer(mode.runtime, runtimeRoot, id);
  return deleted.code === 0 ? [] : [`container ${id}: ${deleted.stderr.trim().slice(0, 300)}`];
}

function hasEnded({ process }: Launched): boolean {
  return process.pid === undefined || process.exitCode !== null || process.signalCode !== null;
}

async function freeGroups({ groupPath, mode }: Holdings): Promise<string[]> {
  if (groupPath === null || mode.cgroups === null) return [];
  return await removeGroups(mode.cgroups, groupPath);
}
