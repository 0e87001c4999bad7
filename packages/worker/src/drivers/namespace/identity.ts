import type { HostFolders } from "../../host/folders.ts";
import { ownIdentity } from "../../host/identity.ts";
import { claimUidSlot, UIDS_PER_SLOT } from "../../host/uids/claim.ts";
import { readSubordinateIds } from "../../host/uids/subordinate.ts";
import type { IdMapping } from "../oci/spec.ts";

/** The host ids of one sandbox. */
export interface SandboxIds {
  uidMappings: IdMapping[];
  gidMappings: IdMapping[];
  /** Host uid of root inside, and host gid of a group inside. */
  rootUid: number;
  hostGid(gid: number): number;
  release(): Promise<void>;
}

/** As root: a range of host uids that no other sandbox on this host has. */
export async function claimIds(folders: HostFolders, sandboxId: string): Promise<SandboxIds> {
  const slot = await claimUidSlot(folders.uids, { process: ownIdentity(), key: folders.key, sandboxId });
  const mapping = [{ containerID: 0, hostID: slot.firstUid, size: UIDS_PER_SLOT }];
  return {
    uidMappings: mapping,
    gidMappings: mapping,
    rootUid: slot.firstUid,
    hostGid: (gid) => slot.firstUid + gid,
    release: slot.release,
  };
}

/**
 * Rootless: the runtime insists that root inside is the user (it hands over a fifo with chown). The others are the user's
 * subordinate ids, shared by all sandboxes of this user.
 */
export function subordinateIds(): SandboxIds {
  const ids = readSubordinateIds();
  const map = (own: number, range: { first: number; count: number } | null): IdMapping[] => [
    { containerID: 0, hostID: own, size: 1 },
    ...(range === null
      ? []
      : [{ containerID: 1, hostID: range.first, size: Math.min(range.count, UIDS_PER_SLOT - 1) }]),
  ];
  const firstGid = ids.gids?.first ?? 0;
  return {
    uidMappings: map(process.geteuid?.() ?? 0, ids.uids),
    gidMappings: map(process.getegid?.() ?? 0, ids.gids),
    rootUid: process.geteuid?.() ?? 0,
    hostGid: (gid) => (gid === 0 ? (process.getegid?.() ?? 0) : firstGid + gid - 1),
    release: async () => undefined,
  };
}
