/** What the first bytes of a connection are. */
export type FirstBytes =
  | { kind: "more" }
  | { kind: "other" }
  | { kind: "broken" }
  | { kind: "hello"; serverName: string | null; encrypted: boolean };

const handshakeRecord = 22;
const clientHello = 1;
const serverNameExtension = 0;
const encryptedHelloExtension = 0xfe0d;

/** Reads a TLS ClientHello (RFC 8446, 4.1.2), which may come in several records. */
export function readClientHello(bytes: Buffer): FirstBytes {
  if (bytes.length === 0) return { kind: "more" };
  if (bytes[0] !== handshakeRecord) return { kind: "other" };
  if (bytes.length >= 2 && bytes[1] !== 3) return { kind: "other" };
  const message = joinRecords(bytes);
  if (message === null) return { kind: "broken" };
  if (message.length < 4) return { kind: "more" };
  if (message[0] !== clientHello) return { kind: "broken" };
  const length = message.readUIntBE(1, 3);
  if (message.length < 4 + length) return { kind: "more" };
  return readBody(message.subarray(4, 4 + length));
}

/** The handshake bytes of whole and half records; null where another kind of record stands between. */
function joinRecords(bytes: Buffer): Buffer | null {
  const parts: Buffer[] = [];
  for (let at = 0; at + 5 <= bytes.length; ) {
    if (bytes[at] !== handshakeRecord)
      return parts.length > 0 && isWhole(Buffer.concat(parts)) ? Buffer.concat(parts) : null;
    const length = bytes.readUInt16BE(at + 3);
    if (length === 0) return null;
    parts.push(bytes.subarray(at + 5, at + 5 + length));
    at += 5 + length;
  }
  return Buffer.concat(parts);
}

function isWhole(message: Buffer): boolean {
  return message.length >= 4 && message.length >= 4 + message.readUIntBE(1, 3);
}

function readBody(body: Buffer): FirstBytes {
  const reader = new Reader(body);
  // Version, random; session id, cipher suites, compression methods.
  if (!reader.skip(34) || !reader.skipVector(1) || !reader.skipVector(2) || !reader.skipVector(1))
    return { kind: "broken" };
  const extensions = reader.vector(2);
  if (extensions === null) return { kind: "hello", serverName: null, encrypted: false };
  let serverName: string | null = null;
  let encrypted = false;
  const list = new Reader(extensions);
  while (list.left > 0) {
    const type = list.number(2);
    const content = list.vector(2);
    if (type === null || content === null) return { kind: "broken" };
    if (type === encryptedHelloExtension) encrypted = true;
    if (type !== serverNameExtension) continue;
    const name = readServerName(content);
    // A second one could be the one that the server takes.
    if (name === null || serverName !== null) return { kind: "broken" };
    serverName = name;
  }
  return { kind: "hello", serverName, encrypted };
}

/** RFC 6066, 3: one host name. */
function readServerName(content: Buffer): string | null {
  const names = new Reader(content).vector(2);
  if (names === null || names.length + 2 !== content.length) return null;
  const reader = new Reader(names);
  const type = reader.number(1);
  const name = reader.vector(2);
  if (type !== 0 || name === null || name.length === 0 || reader.left > 0) return null;
  return /^[\x21-\x7e]+$/.test(name.toString("latin1")) ? name.toString("latin1") : null;
}

class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  skip(count: number): boolean {
    this.#at += count;
    return this.left >= 0;
  }

  number(bytes: number): number | null {
    if (this.left < bytes) return null;
    this.#at += bytes;
    return this.#bytes.readUIntBE(this.#at - bytes, bytes);
  }

  /** Bytes after their count. */
  vector(countBytes: number): Buffer | null {
    const count = this.number(countBytes);
    if (count === null || this.left < count) return null;
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }

  skipVector(countBytes: number): boolean {
    return this.vector(countBytes) !== null;
  }
}
