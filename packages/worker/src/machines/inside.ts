import { Readable } from "node:stream";
import { writeFile } from "./files/write.ts";
import type { MachineSession } from "./session/session.ts";

export interface NameFiles {
  hostname: string;
  resolvConf: string | null;
}

/**
 * Writes the files by which programs of a new machine find names: its own, so that `gethostbyname(gethostname())` works, and the name
 * server's.
 */
export async function writeNameFiles(session: MachineSession, { hostname, resolvConf }: NameFiles): Promise<void> {
  await Promise.all([
    write(session, "/etc/hosts", hostsOf(hostname)),
    write(session, "/etc/hostname", `${hostname}\n`),
    resolvConf === null ? null : write(session, "/etc/resolv.conf", resolvConf),
  ]);
}

/**
 * A disk that was saved has its user's own files; where `/etc/resolv.conf` leads is not always on the disk.
 * A disk that is full is no reason not to start.
 */
export async function renewNameServer(session: MachineSession, { resolvConf }: NameFiles): Promise<void> {
  if (resolvConf !== null) await write(session, "/etc/resolv.conf", resolvConf).catch(() => undefined);
}

async function write(session: MachineSession, path: string, text: string): Promise<void> {
  await writeFile(session, path, Readable.from([Buffer.from(text)]), { mode: 0o644 });
}

function hostsOf(hostname: string): string {
  return `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t${hostname}\n`;
}
