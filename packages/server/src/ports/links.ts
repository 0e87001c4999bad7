import { createHmac, timingSafeEqual } from "node:crypto";

/** Name of the query member and of the cookie that carry a link's token. */
export const LINK_NAME = "sandpool_link";

const TOKEN = /^([1-9][0-9]{0,11})\.([A-Za-z0-9_-]{43})$/;

/** What a link is for. */
export interface LinkSubject {
  machineId: string;
  port: number;
}

/** A token that opens one port of one machine until `expiresAt` (seconds since 1970), as long as `secret` is the machine's. */
export function signLink(secret: Buffer, subject: LinkSubject, expiresAt: number): string {
  return `${expiresAt}.${sign(secret, subject, expiresAt).toString("base64url")}`;
}

/** When the token ends, in seconds since 1970; null where it is not this machine's and port's, or over. */
export function verifyLink(secret: Buffer, subject: LinkSubject, token: string, nowMs: number): number | null {
  const match = TOKEN.exec(token);
  if (match === null) return null;
  const expiresAt = Number(match[1]);
  const received = Buffer.from(String(match[2]), "base64url");
  const expected = sign(secret, subject, expiresAt);
  if (received.length !== expected.length || !timingSafeEqual(received, expected)) return null;
  return expiresAt * 1000 > nowMs ? expiresAt : null;
}

function sign(secret: Buffer, { machineId, port }: LinkSubject, expiresAt: number): Buffer {
  return createHmac("sha256", secret).update(`sandpool port link\n${machineId}\n${port}\n${expiresAt}`).digest();
}

/** The target without our query member, every other byte as it was; the member's value where there was one. */
export function takeLinkFromQuery(target: string): { target: string; token: string | null } {
  const at = target.indexOf("?");
  if (at === -1) return { target, token: null };
  const members = target.slice(at + 1).split("&");
  const others = members.filter((member) => !isLink(member));
  if (others.length === members.length) return { target, token: null };
  const token = (members.find(isLink) ?? "").slice(LINK_NAME.length + 1);
  const query = others.length === 0 ? "" : `?${others.join("&")}`;
  return { target: target.slice(0, at) + query, token };
}

/** The Cookie header without our cookie; null where nothing is left of it. */
export function takeLinkFromCookie(header: string | undefined): { cookie: string | null; token: string | null } {
  if (header === undefined) return { cookie: null, token: null };
  const pairs = header.split(";");
  const others = pairs.filter((pair) => !isLink(pair.trim()));
  if (others.length === pairs.length) return { cookie: header, token: null };
  const token = (pairs.map((pair) => pair.trim()).find(isLink) ?? "").slice(LINK_NAME.length + 1);
  const cookie = others.join(";").trim();
  return { cookie: cookie === "" ? null : cookie, token };
}

/** What the first use of a link sets: for this one host only, out of scripts' reach, not sent along by other sites. */
export function linkCookie(token: string, expiresAt: number, nowMs: number, scheme: "http" | "https"): string {
  const seconds = Math.max(1, Math.floor(expiresAt - nowMs / 1000));
  const secure = scheme === "https" ? "; Secure" : "";
  return `${LINK_NAME}=${token}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`;
}

function isLink(member: string): boolean {
  return member.startsWith(`${LINK_NAME}=`);
}
