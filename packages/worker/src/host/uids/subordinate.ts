import { readFileSync } from "node:fs";
import { userInfo } from "node:os";

export interface IdRange {
  first: number;
  count: number;
}

/** The subordinate ids of this user, from `/etc/subuid` and `/etc/subgid`. Null when there is no entry. */
export function readSubordinateIds(user = currentUser()): { user: string; uids: IdRange | null; gids: IdRange | null } {
  return { user: user.name, uids: firstRange("/etc/subuid", user), gids: firstRange("/etc/subgid", user) };
}

export interface UserName {
  name: string;
  uid: number;
}

/** The first entry of at least 2 ids whose owner is the user's name or number; see subuid(5). */
export function parseSubordinate(text: string, user: UserName): IdRange | null {
  for (const line of text.split("\n")) {
    const [owner, first, count] = line.trim().split(":");
    if (owner !== user.name && owner !== String(user.uid)) continue;
    const range = { first: Number(first), count: Number(count) };
    if (Number.isInteger(range.first) && Number.isInteger(range.count) && range.count >= 2) return range;
  }
  return null;
}

/** The first range above every entry of a subuid(5) file: two users with the same ids could enter each other's sandboxes. */
export function freeSubordinate(text: string): IdRange {
  const ends = text.split("\n").flatMap((line) => {
    const [, first, count] = line.trim().split(":").map(Number);
    return Number.isInteger(first) && Number.isInteger(count) ? [(first as number) + (count as number)] : [];
  });
  return { first: Math.max(100_000, ...ends), count: 65_536 };
}

/** The command that gives the user what is missing in `/etc/subuid` and `/etc/subgid`. */
export function giveSubordinateIds(user: string, lacks: { uids: boolean; gids: boolean }): string {
  const option = (name: string, file: string): string => {
    const { first, count } = freeSubordinate(readOr(file, ""));
    return `--add-${name} ${first}-${first + count - 1} `;
  };
  return `usermod ${lacks.uids ? option("subuids", "/etc/subuid") : ""}${lacks.gids ? option("subgids", "/etc/subgid") : ""}${user}`;
}

function firstRange(file: string, user: UserName): IdRange | null {
  return parseSubordinate(readOr(file, ""), user);
}

function readOr(file: string, otherwise: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return otherwise;
  }
}

function currentUser(): UserName {
  const uid = process.geteuid?.() ?? 0;
  try {
    return { name: userInfo().username, uid };
  } catch {
    // No entry in the user database.
    return { name: String(uid), uid };
  }
}
