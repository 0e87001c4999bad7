import { SandpoolError } from "./errors.ts";

const UNIT_BYTES: Record<string, number> = {
  "": 1,
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  TB: 1e12,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/**
 * Bytes of a size given as a whole number of bytes or as text such as `"2GiB"`, `"1.5 GB"`, `"512MiB"`.
 * Units are exact: `KB` is 1000 bytes, `KiB` is 1024.
 *
 * @example parseSizeBytes("2GiB") // 2147483648
 */
export function parseSizeBytes(size: number | string, what = "size"): number {
  const bytes = typeof size === "number" ? size : textToBytes(size);
  if (Number.isSafeInteger(bytes) && bytes > 0) return bytes;
  throw new SandpoolError(
    "invalid_request",
    `${what} is ${JSON.stringify(size)}, not a positive whole number of bytes`,
    {
      hint: `give bytes, or a number with one of ${Object.keys(UNIT_BYTES).filter(Boolean).join(", ")}, such as "2GiB"`,
      details: { received: size },
    },
  );
}

function textToBytes(text: string): number {
  const match = /^(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]{0,3})$/.exec(text);
  const unit = match?.[2] ?? "";
  if (!match || !Object.hasOwn(UNIT_BYTES, unit)) return Number.NaN;
  return Math.round(Number(match[1]) * (UNIT_BYTES[unit] ?? Number.NaN));
}

/** A size for people, in the largest binary unit that leaves at least one: `formatSize(2147483648)` is `"2GiB"`. */
export function formatSize(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${Number((bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1))}${units[power]}`;
}
