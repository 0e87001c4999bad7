import { randomUUID } from "node:crypto";
import { cp, lstat, mkdir, rename, rm, writeFile } from "node:fs/promises";

/** Public files of the host's /etc that programs look for. No account, key, host name or network setting is among them. */
const COPIED = [
  "alternatives",
  "ca-certificates",
  "fonts",
  "ld.so.cache",
  "ld.so.conf",
  "ld.so.conf.d",
  "localtime",
  "mime.types",
  "nsswitch.conf",
  "pki/tls/certs",
  "protocols",
  "services",
  "ssl/certs",
  "ssl/openssl.cnf",
  "terminfo",
  "timezone",
];

const MADE: Readonly<Record<string, string>> = {
  passwd: "root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
  group: "root:x:0:\nnogroup:x:65534:\n",
  hosts: "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 sandpool\n",
  hostname: "sandpool\n",
  "resolv.conf": "",
};

/** Makes the /etc of sandboxes at `folder`, whole or not at all. One copy serves all sandboxes of a server. */
export async function makeEtc(
  folder: string,
  host = "/etc",
  python: readonly string[] = PYTHON_FOLDERS,
): Promise<void> {
  const draft = `${folder}.${randomUUID()}`;
  await mkdir(draft, { mode: 0o755 });
  for (const name of [...COPIED, ...python]) await copyIfPresent(`${host}/${name}`, `${draft}/${name}`);
  for (const [name, text] of Object.entries(MADE)) await writeFile(`${draft}/${name}`, text, { mode: 0o644 });
  await rm(folder, { recursive: true, force: true });
  await rename(draft, folder);
}

/** Debian keeps `sitecustomize` of its interpreters here. */
const PYTHON_FOLDERS = Array.from({ length: 12 }, (_, index) => `python3.${index + 8}`);

async function copyIfPresent(source: string, target: string): Promise<void> {
  if ((await lstat(source).catch(() => null)) === null) return;
  await mkdir(target.slice(0, target.lastIndexOf("/")), { recursive: true, mode: 0o755 });
  // Links stay links: they point into /usr, which is there inside too.
  await cp(source, target, { recursive: true, verbatimSymlinks: true, filter: isPublic });
}

/** Only what every user of the host may read anyway. */
async function isPublic(source: string): Promise<boolean> {
  const stat = await lstat(source);
  if (stat.isSymbolicLink()) return true;
  return (stat.isFile() || stat.isDirectory()) && (stat.mode & 0o004) !== 0;
}
