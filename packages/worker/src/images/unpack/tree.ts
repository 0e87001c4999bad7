import { chmod, lstat, mkdir, readdir, readlink, unlink } from "node:fs/promises";
import { removeTree } from "../../host/remove-tree.ts";
import { refusedEntry } from "../failed.ts";

/** Linux refuses a path with more than 40 links; so do we. */
const mostHops = 40;

/**
 * A root file system in the making. Every path is resolved step by step as the machine itself would, a link's target counting from this root;
 * nobody else writes here, so what was looked at does not change.
 */
export class Tree {
  readonly root: string;
  /** Known to be folders themselves, not links to some. */
  readonly #folders = new Set<string>();

  constructor(root: string) {
    this.root = root;
  }

  onDisk(path: string): string {
    return path === "" ? this.root : `${this.root}/${path}`;
  }

  /** Where an entry really lies: links on the way are followed, its own name is not; missing folders are made. */
  async place(parts: readonly string[], name: string): Promise<string> {
    const folder = await this.#folder(parts.slice(0, -1), name);
    const last = parts[parts.length - 1] ?? "";
    return folder === "" ? last : `${folder}/${last}`;
  }

  async kind(path: string): Promise<"folder" | "file" | "link" | "other" | null> {
    const found = await lstat(this.onDisk(path)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT" || error.code === "ENOTDIR") return null;
      throw error;
    });
    if (found === null) return null;
    if (found.isDirectory()) return "folder";
    if (found.isSymbolicLink()) return "link";
    return found.isFile() ? "file" : "other";
  }

  async makeFolder(path: string): Promise<void> {
    await mkdir(this.onDisk(path));
    await chmod(this.onDisk(path), 0o755);
    this.#folders.add(path);
  }

  async remove(path: string): Promise<void> {
    const kind = await this.kind(path);
    if (kind === null) return;
    if (kind !== "folder") return await unlink(this.onDisk(path));
    this.#folders.clear();
    await removeTree(this.onDisk(path));
  }

  async children(path: string): Promise<string[]> {
    const names = await readdir(this.onDisk(path));
    return names.map((name) => (path === "" ? name : `${path}/${name}`));
  }

  async #folder(parts: readonly string[], name: string): Promise<string> {
    let at: string[] = [];
    let todo = [...parts];
    let hops = 0;
    while (todo.length > 0) {
      const part = todo.shift();
      if (part === undefined || part === "" || part === ".") continue;
      if (part === "..") {
        at.pop();
        continue;
      }
      const path = [...at, part].join("/");
      const target = await this.#enter(path, name);
      if (target === null) {
        at.push(part);
        continue;
      }
      hops += 1;
      if (hops > mostHops) throw refusedEntry(`a path passes through more than ${mostHops} links`, name);
      if (target.startsWith("/")) at = [];
      todo = [...target.split("/"), ...todo];
    }
    return at.join("/");
  }

  /** Null: a folder, made where nothing was. Else the target of the link that stands there. */
  async #enter(path: string, name: string): Promise<string | null> {
    if (this.#folders.has(path)) return null;
    const kind = await this.kind(path);
    if (kind === "link") return await readlink(this.onDisk(path));
    if (kind === null) await this.makeFolder(path);
    else if (kind !== "folder") throw refusedEntry(`it lies below ${JSON.stringify(path)}, which is a file`, name);
    this.#folders.add(path);
    return null;
  }
}
