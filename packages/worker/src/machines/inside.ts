import { Readable } from "node:stream";
import { writeFile } from "./files/write.ts";
import type { MachineSession } from "./session/session.ts";

/**
 * Writes the files by which programs find names: its own, so that `gethostbyname(gethostname())` works, and the name server's.
 * @param isNew a disk that was saved has its user's own `/etc/hosts`
 */
export async function writeNameFiles(
  session: MachineSession,
  hostname: string,
  resolvConf: string | null,
  isNew: boolean,
): Promise<void> {
  const files: [string, string][] = [];
  if (isNew) files.push(["/etc/hosts", hosts(hostname)], ["/etc/hostname", `${hostname}\n`]);
  if (resolvConf !== null) files.push(["/etc/resolv.conf", resolvConf]);
  await Promise.all(
    files.map(([path, text]) => writeFile(session, path, Readable.from([Buffer.from(text)]), { mode: 0o644 })),
  );
}

function hosts(hostname: string): string {
  return `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t${hostname}\n`;
}
