import { spawnSync } from "node:child_process";
import type { ReadStream } from "node:tty";

const DETACH = 0x1d;
const DETACH_PRESSES = 3;

/** Whether both ends of a conversation are a terminal. */
export function isTerminal(): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true;
}

/** The size of the terminal; 80 by 24 where there is none. */
export function terminalSize(): { rows: number; columns: number } {
  const { rows, columns } = process.stdout;
  return { rows: rows || 24, columns: columns || 80 };
}

/** `TERM` and the like, so that programs inside know what they draw on. */
export function terminalVariables(): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of ["TERM", "COLORTERM"]) {
    const value = process.env[name];
    if (value !== undefined && /^[\w.+-]+$/.test(value)) found[name] = value;
  }
  return found;
}

/**
 * The local terminal in raw mode: every key goes to the program. `restore` gives it back; it is also given back when this process
 * exits in any other way. Three times Ctrl-] calls `onDetach`.
 */
export class RawTerminal {
  readonly #input: ReadStream;
  readonly #onExit = (): void => this.#cook();
  #presses = 0;

  constructor(onDetach: () => void, forward: (data: Buffer) => boolean) {
    this.#input = process.stdin;
    if (this.#input.isTTY) makeRaw(this.#input);
    process.once("exit", this.#onExit);
    this.#input.on("data", (data: Buffer) => {
      if (this.#isDetaching(data)) onDetach();
      else if (!forward(data)) this.#input.pause();
    });
  }

  /** Keys go on after `forward` could take no more. */
  resume(): void {
    this.#input.resume();
  }

  restore(): void {
    process.removeListener("exit", this.#onExit);
    this.#cook();
    this.#input.destroy();
  }

  #cook(): void {
    if (this.#input.isTTY && !this.#input.destroyed) this.#input.setRawMode(false);
  }

  #isDetaching(data: Buffer): boolean {
    for (const byte of data) {
      this.#presses = byte === DETACH ? this.#presses + 1 : 0;
      if (this.#presses === DETACH_PRESSES) return true;
    }
    return false;
  }
}

function makeRaw(input: ReadStream): void {
  input.setRawMode(true);
  // Node's raw mode still turns a line feed into two characters, which breaks programs that use it to move the cursor down.
  spawnSync("stty", ["-opost"], { stdio: ["inherit", "ignore", "ignore"] });
}
