/**
 * What the agent of a pool needs inside its own user namespace to give each environment its identity:
 * mounts and unshare (SYS_ADMIN), ids (SETUID, SETGID, SETPCAP), workspaces of other uids (CHOWN, FOWNER, DAC_OVERRIDE),
 * killing and measuring them (KILL, SYS_PTRACE; the ptrace system call itself is denied).
 * NET_ADMIN is not among them: the runtime brings loopback up.
 */
const POOL = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_KILL",
  "CAP_SETGID",
  "CAP_SETPCAP",
  "CAP_SETUID",
  "CAP_SYS_ADMIN",
  "CAP_SYS_PTRACE",
];

/** A machine's agent under an ordinary runtime: it takes users' ids and ends their programs. Programs have none. */
const MACHINE = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"];

/** Root of a machine with a kernel of its own: capabilities of that kernel, none on the host. */
const OWN_KERNEL = [...MACHINE, "CAP_FSETID", "CAP_NET_BIND_SERVICE"];

/** Building a root file system of its own: owners of its files, and programs that see it as their root. */
const BUILD = [
  "CAP_CHOWN",
  "CAP_DAC_OVERRIDE",
  "CAP_FOWNER",
  "CAP_FSETID",
  "CAP_KILL",
  "CAP_SETGID",
  "CAP_SETUID",
  "CAP_SYS_ADMIN",
  "CAP_SYS_CHROOT",
];

const HELD = { build: BUILD, pool: POOL, none: [], machine: MACHINE, "own-kernel": OWN_KERNEL };

export type CapabilityKind = keyof typeof HELD;

export interface OciCapabilities {
  bounding: string[];
  effective: string[];
  permitted: string[];
  inheritable: string[];
  ambient: string[];
}

/** None is ever inheritable or ambient: what the agent executes gets only what the agent raises for it. */
export function capabilitySets(kind: CapabilityKind): OciCapabilities {
  const held = HELD[kind];
  return { bounding: held, effective: held, permitted: held, inheritable: [], ambient: [] };
}
