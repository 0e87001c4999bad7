/** What a value is, in words for an error: `the number 3`, `a function`, `an object of class Date`. */
export function describe(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (typeof value === "function" || typeof value === "symbol") return `a ${typeof value}`;
  if (typeof value === "object") return `an object of class ${value.constructor?.name ?? "none"}`;
  return `the ${typeof value} ${String(value).slice(0, 80)}`;
}
