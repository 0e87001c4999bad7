import { Readable } from "node:stream";
import { type Item, makeLayer } from "../images/support.ts";

export const file = (name: string, content = "planted"): Item => ({ name, content });
export const folder = (name: string): Item => ({ name, type: "directory", mode: 0o755 });
export const link = (name: string, linkname: string): Item => ({ name, type: "symlink", linkname });
export const hardLink = (name: string, linkname: string): Item => ({ name, type: "link", linkname });

/** Archives that lead out of the folder they are unpacked in, to the folder `aim`, which has a file `secret`. */
export function wayOut(aim: string): [name: string, items: Item[]][] {
  const up = `${"../".repeat(24)}${aim.slice(1)}`;
  return [
    ["a path upwards", [file(`${up}/planted`)]],
    ["an absolute path", [file(`${aim}/planted`)]],
    ["a link, and a file through it", [link("l", aim), file("l/planted")]],
    ["a link upwards, and a file through it", [link("l", up), file("l/planted")]],
    ["two links, and a file through both", [link("b", aim), link("a", "b"), file("a/planted")]],
    ["a link in a folder, and a folder through it", [folder("d"), link("d/l", up), folder("d/l/planted")]],
    ["a hard link, and a write to it", [hardLink("h", `${aim}/secret`), file("h")]],
    ["a link, and a hard link through it", [link("l", aim), hardLink("h", "l/secret"), file("h")]],
    ["a link through /proc", [link("l", "/proc/self/root"), file(`l${aim}/planted`)]],
    ["twins in case", [link("L", aim), folder("l"), file("L/planted")]],
    ["twins in form", [link("\u00e9", aim), folder("e\u0301"), file("\u00e9/planted")]],
  ];
}

export async function tarOf(items: readonly Item[]): Promise<Readable> {
  return Readable.from([await makeLayer(items)]);
}

/** Sets the sum of a header that was changed. */
export function seal(header: Buffer): void {
  header.fill(0x20, 148, 156);
  const sum = header.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
}
