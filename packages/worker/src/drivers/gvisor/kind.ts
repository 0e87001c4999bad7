import { chown, readFile, rename } from "node:fs/promises";
import { makeFolder } from "../../host/make-folder.ts";
import type { MachineFolders } from "../machines/folders.ts";
import type { MachineKind, Plan, PlanInput, ShimMount } from "../machines/kind.ts";
import { bindsOf, bound, imageBind, machineOciSpec, TMP_MARK } from "../machines/plan.ts";
import { type MachineRecord, writeJson } from "../machines/record.ts";
import type { OciSpec } from "../oci/spec.ts";
import { detectRunsc } from "./find.ts";

/** Stub processes and the sentry's own threads come on top of what runs inside. */
const HOST_PROCESSES_FACTOR = 2;
const HOST_PROCESSES_OWN = 512;
const TAR_ANNOTATION = "dev.gvisor.tar.rootfs.upper";

/** gVisor: a kernel of the machine's own, in user space. The runtime's every call runs in a user namespace of the machine's range. */
export const gvisorKind: MachineKind = {
  name: "gvisor",
  canFork: true,
  unprivileged: false,
  detect: detectRunsc,
  hostProcesses: (processes) => processes * HOST_PROCESSES_FACTOR + HOST_PROCESSES_OWN,
  makeLayer: async (folders, _spec, firstUid) => {
    await makeFolder(folders.layer, 0o700);
    await chown(folders.layer, firstUid, firstUid);
  },
  plan,
  useDisk,
  tarArguments: (_folders, id) => ["--runtime", "tar", "rootfs-upper", id],
};

function plan(input: PlanInput): Plan {
  const { folders, spec } = input;
  const layer = `${folders.folder}/layer`;
  return {
    userNamespace: true,
    runtime: {
      kind: "runsc",
      path: `${folders.folder}/runsc`,
      flags: [
        "--platform=systrap",
        // The sentry and the gofer are all that touches the host; with directfs the sentry would open files itself.
        "--directfs=false",
        // The shim has entered the groups before.
        "--ignore-cgroups",
        `--overlay2=root:dir=${layer},size=${spec.diskBytes}`,
        `--network=${spec.network.kind === "none" ? "none" : "sandbox"}`,
        "--allow-rootfs-tar-annotation",
        "--host-settings=ignore",
        // Ours is the stricter one (machines/states); the runtime's own compares where a saved disk lay.
        "--restore-spec-validation=warning",
      ],
    },
    mounts: [
      ...rootMounts(input),
      ...bindsOf(input),
      // It asks for its own path, and root of the user namespace cannot pass through every folder of the host.
      { kind: "bind", source: input.runtime.path, target: `${folders.folder}/runsc`, read_only: true, idmap: "no" },
      { kind: "bind", source: folders.layer, target: layer, read_only: false, idmap: "no" },
    ],
    config: machineOciSpec(input, {
      capabilities: "own-kernel",
      isMapped: false,
      cgroupsPath: null,
      // On an empty /tmp gVisor mounts a tmpfs, whose files would be memory; this one makes it not empty.
      extraMounts: [bound(`${folders.folder}/empty`, TMP_MARK)],
    }),
  };
}

/** The gofer needs every mount point to be there, and an image has none of ours: they lie in a folder over it. */
function rootMounts(input: PlanInput): ShimMount[] {
  const { folder } = input.folders;
  const root = `${folder}/root`;
  if (input.spec.image.kind === "host") return [imageBind(input, root)];
  const points = `${folder}/points`;
  return [
    imageBind(input, `${folder}/lower`),
    { kind: "bind", source: input.mountPoints, target: points, read_only: true, idmap: "try" },
    { kind: "layers", folders: [points, `${folder}/lower`], target: root },
  ];
}

async function useDisk(folders: MachineFolders, { firstUid }: MachineRecord): Promise<void> {
  const tar = `${folders.layer}/disk.tar`;
  await rename(`${folders.data}/disk.tar`, tar);
  await chown(tar, firstUid, firstUid);
  const file = `${folders.bundle}/config.json`;
  const config = JSON.parse(await readFile(file, "utf8")) as OciSpec;
  config.annotations = { [TAR_ANNOTATION]: `${folders.folder}/layer/disk.tar` };
  await writeJson(file, config);
  await chown(file, firstUid, firstUid);
}
