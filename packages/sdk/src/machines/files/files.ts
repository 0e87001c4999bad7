import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import type { Readable } from "node:stream";
import type { FileChange, FileEntry, FileList, WrittenFile, WrittenTree } from "@sandpool/protocol";
import { readNdjson } from "../../http/ndjson.ts";
import type { Transport } from "../../http/transport.ts";
import { requestJson } from "../../values/json.ts";
import { machinePath, toQuery } from "../options.ts";
import { type OnProgress, withProgress } from "./hashing.ts";
import { packTree } from "./packTree.ts";
import { readContent, saveContent } from "./read.ts";
import { type UnpackedTree, unpackTree } from "./unpackTree.ts";
import { writeContent, writeStream } from "./write.ts";

/** As whom the agent resolves the path inside: a name, `uid` or `uid:gid`. Default: root. */
export interface FileOptions {
  user?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Called as content passes, with all bytes so far; of a folder with those of its tar. `total` is null where it is not known. */
  onProgress?: OnProgress | undefined;
}

export interface WriteOptions extends FileOptions {
  /** Such as 0o644; default: 0644, or what the file had. */
  mode?: number | undefined;
  /** Make missing folders. Default true. */
  parents?: boolean | undefined;
}

export interface ReadOptions extends FileOptions {
  /** First byte. */
  offset?: number | undefined;
  /** Bytes at most. */
  length?: number | undefined;
}

/** What can be written: text, bytes, or a stream of bytes of any size. */
export type Content = string | Uint8Array | Readable | AsyncIterable<Uint8Array>;

type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** Files inside machines. Paths inside are absolute. Content of any size passes through flat memory; its sha256 is compared. */
export class MachineFiles {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Copies a local file with its mode, or a folder with all in it, to a path inside; resolves once the content is safely there. */
  async upload(
    machine: string,
    localPath: string,
    path: string,
    options: WriteOptions = {},
  ): Promise<WrittenFile | WrittenTree> {
    const facts = await stat(localPath);
    if (facts.isDirectory()) return this.writeTree(machine, path, packTree(localPath), options);
    const { mode = facts.mode & 0o777, signal } = options;
    const route = this.#route(machine, "", path, writeQuery({ ...options, mode }));
    const source = withProgress(createReadStream(localPath), options.onProgress, facts.size);
    return writeStream(this.#transport, route, source, facts.size, signal);
  }

  /** Copies a file or folder from inside to a local path. A file appears whole or not at all; of a folder nothing leads outside. */
  async download(
    machine: string,
    path: string,
    localPath: string,
    options: FileOptions = {},
  ): Promise<WrittenFile | UnpackedTree> {
    const entry = await this.stat(machine, path, { ...options, follow: true });
    if (entry.kind === "folder") return unpackTree(await this.readTree(machine, path, options), localPath);
    const route = this.#route(machine, "", path, { user: options.user });
    return saveContent(this.#transport, route, localPath, entry, options);
  }

  /** A whole file, or a part of it, in memory. */
  async read(machine: string, path: string, options: ReadOptions = {}): Promise<Buffer> {
    const chunks: Buffer[] = [];
    for await (const chunk of await this.readStream(machine, path, options)) chunks.push(chunk as Buffer);
    return Buffer.concat(chunks);
  }

  /** A file as a stream, which fails where the content that came is not what the server announced. */
  async readStream(machine: string, path: string, options: ReadOptions = {}): Promise<Readable> {
    return readContent(this.#transport, this.#route(machine, "", path, { user: options.user }), options);
  }

  /** Writes a file, whole or not at all; resolves once it is synced and has its name. */
  async write(machine: string, path: string, content: Content, options: WriteOptions = {}): Promise<WrittenFile> {
    return writeContent(this.#transport, this.#route(machine, "", path, writeQuery(options)), content, options.signal);
  }

  /** A folder as a tar stream. */
  async readTree(machine: string, path: string, options: FileOptions = {}): Promise<Readable> {
    const { signal } = options;
    const accept = "application/x-tar";
    const route = this.#route(machine, "/tree", path, { user: options.user });
    return this.#transport.send("GET", route, { accept, signal, timeoutMs: 0 }, async (reply) =>
      withProgress(reply.body, options.onProgress, null),
    );
  }

  /** Extracts a tar stream into a folder inside; no link is followed out of it. */
  async writeTree(machine: string, path: string, tar: Readable, options: FileOptions = {}): Promise<WrittenTree> {
    const { signal } = options;
    const route = this.#route(machine, "/tree", path, { user: options.user });
    const body = withProgress(tar, options.onProgress, null);
    const request = { body, contentType: "application/x-tar", signal, timeoutMs: 0 };
    return (await this.#transport.json("PUT", route, request)) as WrittenTree;
  }

  /** The entries of a folder, sorted by path, down to `depth` (1). */
  async list(machine: string, path: string, options: FileOptions & { depth?: number } = {}): Promise<FileEntry[]> {
    const entries: FileEntry[] = [];
    for (let after: string | undefined; ; after = entries.at(-1)?.path) {
      const query = { user: options.user, depth: options.depth, after };
      const reply = await this.#get(this.#route(machine, "/list", path, query), options);
      const page = reply as FileList;
      entries.push(...page.entries);
      if (!page.more || page.entries.length === 0) return entries;
    }
  }

  /** One entry; of a link itself, unless `follow`. @throws NotFoundError (`file_not_found`) */
  async stat(machine: string, path: string, options: FileOptions & { follow?: boolean } = {}): Promise<FileEntry> {
    const query = { user: options.user, follow: options.follow };
    return ((await this.#get(this.#route(machine, "/stat", path, query), options)) as { entry: FileEntry }).entry;
  }

  /** Makes a folder, and with `parents` (the default) those above it. */
  async make(
    machine: string,
    path: string,
    options: FileOptions & { parents?: boolean; mode?: number } = {},
  ): Promise<void> {
    const { signal, parents = true, ...rest } = options;
    await this.#post(machine, "make", { path, parents, ...rest }, signal);
  }

  /** Moves or renames; what is there is replaced only with `replace`. @throws SandpoolError `file_exists` */
  async move(
    machine: string,
    from: string,
    to: string,
    options: FileOptions & { replace?: boolean } = {},
  ): Promise<void> {
    const { signal, ...rest } = options;
    await this.#post(machine, "move", { from, to, ...rest }, signal);
  }

  /** Removes a file, or with `recursive` a folder and all in it. */
  async remove(machine: string, path: string, options: FileOptions & { recursive?: boolean } = {}): Promise<void> {
    const { signal, ...rest } = options;
    await this.#post(machine, "remove", { path, ...rest }, signal);
  }

  /** Changes below a path as they happen; `rescan` where some were missed. Leaving the loop or aborting ends the watch. */
  async *watch(
    machine: string,
    path: string,
    options: FileOptions & { recursive?: boolean } = {},
  ): AsyncGenerator<Exclude<FileChange, { event: "heartbeat" }>, void, undefined> {
    const route = this.#route(machine, "/watch", path, { user: options.user, recursive: options.recursive });
    const request = { accept: "application/x-ndjson", signal: options.signal };
    const body = await this.#transport.send("GET", route, request, async (reply) => reply.body);
    try {
      for await (const line of readNdjson(body)) {
        const change = line as FileChange;
        if ("kind" in change) yield change;
      }
    } finally {
      body.on("error", () => undefined).destroy();
    }
  }

  #get(route: string, { signal }: FileOptions): Promise<unknown> {
    return this.#transport.json("GET", route, { retries: 3, signal });
  }

  async #post(machine: string, verb: string, body: object, signal: AbortSignal | undefined): Promise<void> {
    const route = machinePath(machine, `/files/${verb}`);
    await this.#transport.json("POST", route, { body: requestJson(body), signal });
  }

  #route(machine: string, rest: string, path: string, query: Query): string {
    return machinePath(machine, `/files${rest}`) + toQuery({ path, ...query });
  }
}

/** The members of options that a query has. */
function writeQuery({ user, mode, parents }: WriteOptions): Query {
  return { user, mode: mode?.toString(8), parents };
}
