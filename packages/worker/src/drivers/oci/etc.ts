import { randomUUID } from "node:crypto";
import { chmodSync, copyFileSync, lstatSync, mkdirSync, readdirSync, readlinkSync, symlinkSync } from "node:fs";
import { chmod, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { makeFolder, makeFoldersBelow } from "../../host/make-folder.ts";

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
  await makeFolder(draft, 0o755);
  for (const name of [...COPIED, ...python]) {
    await makeFoldersBelow(draft, dirname(name));
    copyIfPresent(`${host}/${name}`, `${draft}/${name}`);
  }
  for (const [name, text] of Object.entries(MADE)) {
    await writeFile(`${draft}/${name}`, text);
    await chmod(`${draft}/${name}`, 0o644);
  }
  await rm(folder, { recursive: true, force: true });
  await rename(draft, folder);
}

/** Debian keeps `sitecustomize` of its interpreters here. */
const PYTHON_FOLDERS = Array.from({ length: 12 }, (_, index) => `python3.${index + 8}`);

/** Synchronous: some eight hundred tiny files, once a server, take several times as long through the thread pool. */
function copyIfPresent(source: string, target: string): void {
  const stat = lstatSync(source, { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (stat.isSymbolicLink()) {
    // Links stay links: they point into /usr, which is there inside too.
    symlinkSync(readlinkSync(source), target);
  } else if ((stat.mode & 0o004) === 0) {
    // Only what every user of the host may read anyway.
    return;
  } else if (stat.isDirectory()) {
    mkdirSync(target);
    chmodSync(target, 0o755);
    for (const name of readdirSync(source)) copyIfPresent(`${source}/${name}`, `${target}/${name}`);
  } else if (stat.isFile()) {
    copyFileSync(source, target);
    chmodSync(target, 0o644);
  }
}
