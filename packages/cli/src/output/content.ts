import { StringDecoder } from "node:string_decoder";
import { escapeControl } from "sandpool/escape";

/**
 * Writes what a machine's programs and files hold to standard output or error: byte for byte into a pipe or file. At a terminal, where
 * bytes are commands, control characters become visible; `raw` is for what runs in a terminal of its own.
 */
export class ContentWriter {
  readonly #stream: NodeJS.WriteStream;
  readonly #decoder: StringDecoder | null;
  #isBroken = false;
  #goOn: (() => void) | null = null;

  constructor(stream: NodeJS.WriteStream, { raw = false }: { raw?: boolean } = {}) {
    this.#stream = stream;
    this.#decoder = stream.isTTY && !raw ? new StringDecoder("utf8") : null;
    stream.on("drain", () => this.#goOn?.());
    for (const event of ["error", "close"]) {
      stream.once(event, () => {
        this.#isBroken = true;
        this.#goOn?.();
      });
    }
  }

  /** Resolves once more may be written; false when the reader has gone. */
  async write(data: Buffer): Promise<boolean> {
    return this.#put(this.#decoder === null ? data : escapeControl(this.#decoder.write(data), { keepLines: true }));
  }

  /** Half a character at the end is shown as what it is. */
  async end(): Promise<void> {
    const rest = this.#decoder?.end() ?? "";
    if (rest !== "") await this.#put(escapeControl(rest));
  }

  async #put(data: Buffer | string): Promise<boolean> {
    if (this.#isBroken) return false;
    if (data.length > 0 && !this.#stream.write(data)) {
      await new Promise<void>((resolve) => {
        this.#goOn = resolve;
      });
      this.#goOn = null;
    }
    return !this.#isBroken;
  }
}
