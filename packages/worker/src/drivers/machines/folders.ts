import { resolve } from "node:path";
import { hostFolders } from "../../host/folders.ts";

/** Where one machine keeps its things. Contract: docs/internals/machines.md, "Folder of a machine". */
export interface MachineFolders {
  /** Below /run: gone with the next boot. 0711, for the machine's own root passes through it to its bundle; the files in it are 0600. */
  folder: string;
  bundle: string;
  /** The runtime's `--root`; the machine's own root writes here. */
  runtimeRoot: string;
  /** `<data>/machines/<id>`: survives a boot. */
  data: string;
  /** The writable layer: gVisor's files, or `disk.ext4`. */
  layer: string;
  shimSettings: string;
  record: string;
}

export function machineFolders(dataDir: string, id: string): MachineFolders {
  const folder = `${hostFolders(dataDir).machines}/${id}`;
  const data = `${resolve(dataDir)}/machines/${id}`;
  return {
    folder,
    bundle: `${folder}/bundle`,
    runtimeRoot: `${folder}/runtime`,
    data,
    layer: `${data}/layer`,
    shimSettings: `${folder}/shim.json`,
    record: `${folder}/machine.json`,
  };
}
