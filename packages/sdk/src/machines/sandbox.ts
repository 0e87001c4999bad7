import { randomUUID } from "node:crypto";
import type { Readable } from "node:stream";
import type { Machine, PortLink, WrittenFile, WrittenTree } from "@sandpool/protocol";
import { NotFoundError } from "../errors.ts";
import type { Transport } from "../http/transport.ts";
import { LeaseKeeper } from "../pool/lease.ts";
import type { RunOptions, StreamOptions } from "./exec/execs.ts";
import type { ExecOutcome } from "./exec/outcome.ts";
import type { ExecStream } from "./exec/stream.ts";
import type { Content, FileOptions, ReadOptions, WriteOptions } from "./files/files.ts";
import type { UnpackedTree } from "./files/unpackTree.ts";
import { type Language, toProgram } from "./languages.ts";
import { Machines } from "./machines.ts";
import { type MachineOptions, machinePath } from "./options.ts";
import type { PortAddress } from "./url.ts";

const DEFAULT_LEASE_SECONDS = 300;

/**
 * A machine for a block of code: a lease keeps it alive while this object exists, and the end of the block deletes it. If the
 * program dies, the lease does.
 *
 * @example
 * await using sandbox = await new Sandpool().sandbox({ size: "large", image: "pytorch" });
 * console.log((await sandbox.run("print(6 * 7)")).check().stdout);
 */
export class Sandbox implements AsyncDisposable {
  /** As the server described it when it was made. */
  readonly description: Machine;
  readonly #machines: Machines;
  readonly #lease: LeaseKeeper;

  private constructor(transport: Transport, description: Machine) {
    this.description = description;
    this.#machines = new Machines(transport);
    const seconds = description.lease ?? DEFAULT_LEASE_SECONDS;
    this.#lease = new LeaseKeeper(transport, machinePath(description.id), seconds, this);
  }

  /** Makes the machine; `leaseSeconds` is 300 unless it is given. */
  static async create(transport: Transport, options: MachineOptions = {}): Promise<Sandbox> {
    const { leaseSeconds = DEFAULT_LEASE_SECONDS } = options;
    return new Sandbox(transport, await new Machines(transport).create({ ...options, leaseSeconds }));
  }

  get id(): string {
    return this.description.id;
  }

  get name(): string {
    return this.description.name;
  }

  /** `machines.exec` in this machine. */
  exec(options: RunOptions | string): Promise<ExecOutcome> {
    return this.#machines.exec(this.id, typeof options === "string" ? { command: options } : options);
  }

  /** `machines.streamExec` in this machine. */
  streamExec(options: StreamOptions): Promise<ExecStream> {
    return this.#machines.streamExec(this.id, options);
  }

  /** Runs code of a language whose interpreter the image has; options are those of `exec`. */
  async run(
    code: string,
    options: Omit<RunOptions, "command" | "argv"> & { language?: Language } = {},
  ): Promise<ExecOutcome> {
    const { language = "python", ...rest } = options;
    const program = toProgram(code, language);
    if (program.kind === "argument") return this.exec({ ...rest, argv: program.argv });
    const path = `/tmp/run-${randomUUID()}.${program.ending}`;
    await this.write(path, code, { user: rest.user });
    try {
      return await this.exec({ ...rest, argv: [program.interpreter, path] });
    } finally {
      await this.#machines.files.remove(this.id, path);
    }
  }

  /** `machines.files.upload` into this machine. */
  upload(localPath: string, path: string, options?: WriteOptions): Promise<WrittenFile | WrittenTree> {
    return this.#machines.files.upload(this.id, localPath, path, options);
  }

  /** `machines.files.download` from this machine. */
  download(path: string, localPath: string, options?: FileOptions): Promise<WrittenFile | UnpackedTree> {
    return this.#machines.files.download(this.id, path, localPath, options);
  }

  read(path: string, options?: ReadOptions): Promise<Buffer> {
    return this.#machines.files.read(this.id, path, options);
  }

  readStream(path: string, options?: ReadOptions): Promise<Readable> {
    return this.#machines.files.readStream(this.id, path, options);
  }

  write(path: string, content: Content, options?: WriteOptions): Promise<WrittenFile> {
    return this.#machines.files.write(this.id, path, content, options);
  }

  url(port: number): Promise<PortAddress> {
    return this.#machines.url(this.id, port);
  }

  link(port: number, options?: { expiresSeconds?: number }): Promise<PortLink> {
    return this.#machines.link(this.id, port, options);
  }

  /** Resolves once something listens on the port. */
  async waitForPort(port: number, options: { timeoutSeconds?: number; signal?: AbortSignal } = {}): Promise<void> {
    await this.#machines.waitUntilReady(this.id, { port, ...options });
  }

  /** Deletes the machine; nothing of it is left. Twice is harmless. */
  async delete(): Promise<void> {
    this.#lease.stop();
    await this.#machines.delete(this.id).catch((error: unknown) => {
      if (!(error instanceof NotFoundError)) throw error;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.delete();
  }
}
