import { rm } from "node:fs/promises";
import { type CgroupHierarchy, detectCgroups } from "../../host/cgroups/detect.ts";
import { removeGroups } from "../../host/cgroups/remove.ts";
import { serverGroup } from "../../host/cgroups/shard.ts";
import { type HostFolders, writeOwner } from "../../host/folders.ts";
import { ownIdentity } from "../../host/identity.ts";
import { makeFolder } from "../../host/make-folder.ts";
import { claimUidSlot, type UidSlot } from "../../host/uids/claim.ts";
import { DriverError } from "../driver.ts";
import type { Launched } from "../namespace/launch.ts";
import { endSandbox } from "./end.ts";

/** All that one sandbox holds on the host, from before the first of it exists. */
export interface GvisorHoldings {
  id: string;
  folder: string;
  shim: string;
  cgroups: CgroupHierarchy | null;
  /** Relative to the controllers' roots; null without cgroups. */
  groupPath: string | null;
  slot: UidSlot;
  launched: Launched | null;
}

/** Takes the id by making its folder, which fails if it is taken, then the uids. */
export async function holdGvisor(folders: HostFolders, id: string, shim: string): Promise<GvisorHoldings> {
  const folder = `${folders.sandboxes}/${id}`;
  await makeFolder(folder, 0o711).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new DriverError("sandbox_spec_invalid", `the sandbox id ${id} is in use`, "choose an id that was never used");
  });
  try {
    await writeOwner(folder);
    const slot = await claimUidSlot(folders.uids, { process: ownIdentity(), key: folders.key, sandboxId: id });
    const cgroups = detectCgroups();
    const groupPath = cgroups === null ? null : `${serverGroup(folders.key)}/${id}`;
    return { id, folder, shim, cgroups, groupPath, slot, launched: null };
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Kills and frees, in the order in which nothing can be used again before it is empty: processes, groups, folder, uids. */
export async function freeGvisor(holdings: GvisorHoldings): Promise<void> {
  const { id, folder, shim, launched, cgroups, groupPath } = holdings;
  launched?.channel.destroy();
  // First of all, so that nothing more of it enters the groups or takes an id.
  launched?.process.kill("SIGKILL");
  const left = await endSandbox(shim, folder);
  await launched?.ended;
  if (cgroups !== null && groupPath !== null) left.push(...(await removeGroups(cgroups, groupPath)));
  if (left.length > 0) {
    // The uid range stays claimed: a range that still runs something must never be given to another sandbox.
    throw new DriverError(
      "sandbox_cleanup_failed",
      `sandbox ${id} could not be removed; left: ${left.join(", ")}`,
      "a process in uninterruptible sleep blocks it; the next start of the server tries again",
      { left },
    );
  }
  await rm(folder, { recursive: true, force: true });
  await holdings.slot.release();
}
