import { chown, stat, writeFile } from "node:fs/promises";
import type { HostFolders } from "../../host/folders.ts";
import { openFilesLimit } from "../../host/limits.ts";
import { makeFolder } from "../../host/make-folder.ts";
import { TOOL_PATH } from "../../host/run.ts";
import { UIDS_PER_SLOT } from "../../host/uids/claim.ts";
import type { SandboxMount, SandboxSpec } from "../driver.ts";
import { systemRoots } from "../machines/host-image.ts";
import type { ShimMount } from "../machines/kind.ts";
import { AGENT_TARGET, PROXY_TARGET } from "../namespace/bundle.ts";
import { kernelMounts, systemLinks } from "../oci/mounts.ts";
import { checkMounts, makeRootfs } from "../oci/rootfs.ts";
import { type OciMount, type OciSpec, ociSpec } from "../oci/spec.ts";
import { pythonMounts } from "../python.ts";
import { shimSettingsOf } from "./end.ts";

const OPEN_FILES = 65_536;

export interface GvisorBundleInput {
  spec: SandboxSpec;
  agentPath: string | null;
  runscPath: string;
  folders: HostFolders;
  /** `<sandboxes>/<id>`, which exists. */
  folder: string;
  firstUid: number;
  /** Host folders of the sandbox's cgroups, one for each hierarchy. */
  groups: readonly string[];
}

/** Where the runtime keeps what it writes: the sandbox's own root owns it. */
export function runtimeFolderOf(folder: string): string {
  return `${folder}/runtime`;
}

/** Writes everything the runtime needs for one sandbox: mount points, the root, the spec and, last, what the shim is told. */
export async function makeGvisorBundle(input: GvisorBundleInput): Promise<void> {
  const { spec, folder, firstUid } = input;
  const wanted = requestedMounts(spec, input.agentPath);
  await checkMounts(wanted);
  const placed = await placeMounts(folder, [...systemFolders(input.folders.etc), ...wanted]);
  const mounts = [...kernelMounts(), ...placed.map(({ oci }) => oci)];
  // The gofer binds in this root, where no tmpfs covers anything: also what lies on one needs its mount point there.
  const sources = [...placed.map(({ oci, shim }) => ({ ...oci, source: shim.source })), ...kernelMounts()];
  await makeRootfs(`${folder}/rootfs`, sources, systemLinks());
  await makeFolder(`${folder}/bundle`, 0o711);
  await makeFolder(runtimeFolderOf(folder), 0o700);
  await chown(runtimeFolderOf(folder), firstUid, firstUid);
  const config = `${folder}/bundle/config.json`;
  await writeFile(config, JSON.stringify(composeSpec(spec, folder, mounts)), { mode: 0o600 });
  await chown(config, firstUid, firstUid);
  await writeFile(`${folder}/runsc`, "", { mode: 0o444 });
  // It asks for its own path, and root of the user namespace cannot pass through every folder of the host.
  const runsc = bind(input.runscPath, `${folder}/runsc`, true);
  const settings = shimSettings(input, [...placed.map(({ shim }) => shim), runsc]);
  await writeFile(shimSettingsOf(folder), JSON.stringify(settings), { mode: 0o600 });
}

/** The arguments of the shim's binary that run the sandbox in the foreground, with descriptor 3 as its channel. */
export function foregroundArguments(folder: string, id: string): string[] {
  const files = ["--bundle", `${folder}/bundle`, "--pid-file", `${runtimeFolderOf(folder)}/pid`];
  return [folder, "--foreground", "run", ...files, "--pass-fd", "3:3", id];
}

function requestedMounts(spec: SandboxSpec, agentPath: string | null): SandboxMount[] {
  const mounts = [...(spec.pythonPath === undefined ? [] : pythonMounts(spec.pythonPath)), ...spec.mounts];
  if (agentPath !== null) mounts.push({ source: agentPath, target: AGENT_TARGET, readOnly: true });
  if (spec.network !== "none") mounts.push({ source: spec.network.proxySocket, target: PROXY_TARGET, readOnly: true });
  return mounts;
}

function systemFolders(etc: string): SandboxMount[] {
  const folders = systemRoots().map((path) => ({ source: path, target: path, readOnly: true }));
  return [...folders, { source: etc, target: "/etc", readOnly: true }];
}

/**
 * Each mount twice: the shim binds it below the sandbox's folder, in a mount namespace of the sandbox's own, so that the mapped root,
 * who may not pass through the host's folders, finds it there; the spec takes it from there.
 */
async function placeMounts(
  folder: string,
  mounts: readonly SandboxMount[],
): Promise<{ shim: BindMount; oci: OciMount }[]> {
  await makeFolder(`${folder}/mounts`, 0o711);
  return await Promise.all(
    mounts.map(async ({ source, target, readOnly }, index) => {
      const place = `${folder}/mounts/${index}`;
      if ((await stat(source)).isDirectory()) await makeFolder(place, 0o711);
      else await writeFile(place, "", { mode: 0o444 });
      const options = ["rbind", readOnly ? "ro" : "rw", "nosuid", "nodev", "private"];
      return {
        shim: bind(source, place, readOnly),
        oci: { destination: target, type: "bind", source: place, options },
      };
    }),
  );
}

type BindMount = Extract<ShimMount, { kind: "bind" }>;

function bind(source: string, target: string, readOnly: boolean): BindMount {
  return { kind: "bind", source, target, read_only: readOnly, idmap: "no" };
}

function composeSpec(spec: SandboxSpec, folder: string, mounts: OciMount[]): OciSpec {
  return ociSpec({
    argv: spec.argv ?? [AGENT_TARGET],
    cwd: spec.cwd ?? "/",
    environ: spec.environ,
    // Of the sandbox's own kernel; on the host its root is nobody.
    capabilities: spec.capabilities,
    mounts,
    uidMappings: [],
    gidMappings: [],
    cgroupsPath: null,
    cgroupNamespace: false,
    openFiles: Math.min(OPEN_FILES, openFilesLimit()),
    // The shim sets it. runsc would after the start, and fails there when the program has ended already.
    oomScoreAdj: null,
    root: { path: `${folder}/rootfs`, readonly: true },
  });
}

/** See `agent/src/shim/settings.rs`. */
function shimSettings(input: GvisorBundleInput, mounts: ShimMount[]): object {
  const { spec, folder, firstUid, groups } = input;
  const flags = [
    "--platform=systrap",
    // The sentry and the gofer are all that touches the host; with directfs the sentry would open files itself.
    "--directfs=false",
    // The shim has entered the groups before.
    "--ignore-cgroups",
    // The root is read-only, and what is written lies on tmpfs.
    "--overlay2=none",
    "--network=none",
    "--host-settings=ignore",
    ...(spec.network === "none" ? [] : ["--host-uds=open"]),
  ];
  return {
    id: spec.id,
    runtime: { kind: "runsc", path: `${folder}/runsc`, root: runtimeFolderOf(folder), flags },
    bundle: `${folder}/bundle`,
    uids: { base: firstUid, count: UIDS_PER_SLOT },
    user_namespace: true,
    environ: { PATH: TOOL_PATH },
    stop_ms: 0,
    mounts,
    groups,
  };
}
