import { utimes } from "node:fs/promises";

export type CachedKind = "archives" | "layers";

/** Which archives and layers live pools use, and when each was used last. What is used is never removed. */
export class Uses {
  readonly #held = new Map<string, number>();

  /** From now until the returned function is called. `mark` is a file or folder whose time says when it was used last. */
  hold(kind: CachedKind, id: string, mark: string): () => void {
    const key = `${kind} ${id}`;
    this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
    touch(mark);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#held.get(key) ?? 1) - 1;
      if (left === 0) this.#held.delete(key);
      else this.#held.set(key, left);
      touch(mark);
    };
  }

  isHeld(kind: CachedKind, id: string): boolean {
    return this.#held.has(`${kind} ${id}`);
  }
}

/** Losing a time costs nothing but the order in which things are removed. */
function touch(path: string): void {
  const now = new Date();
  utimes(path, now, now).catch(() => undefined);
}
