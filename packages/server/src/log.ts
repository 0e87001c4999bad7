import { type DestinationStream, type Logger, type LoggerOptions, pino } from "pino";

const SECRET_PATHS = ["authorization", "Authorization", "key", "token", "secret", "headers", "env"];

/** The server's logger: JSON lines, secrets redacted, control characters escaped wherever a text came from. */
export function createLogger(options: { level?: string; destination?: DestinationStream } = {}): Logger {
  const settings: LoggerOptions = {
    level: options.level ?? "info",
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    redact: { paths: SECRET_PATHS.flatMap((path) => [path, `*.${path}`, `*.*.${path}`]), censor: "[redacted]" },
    serializers: { err: serializeError },
    hooks: { streamWrite: escapeControls },
  };
  return options.destination ? pino(settings, options.destination) : pino(settings);
}

/** JSON escapes C0 only; C1, DEL and the direction marks would still reach a terminal that shows the log. */
function escapeControls(line: string): string {
  return line.replace(/[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, escapeCharacter);
}

function escapeCharacter(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function serializeError(error: unknown): unknown {
  if (!(error instanceof Error)) return { message: String(error) };
  const { name, message, stack } = error;
  const code = (error as { code?: unknown }).code;
  return { name, message, stack, ...(typeof code === "string" ? { code } : {}) };
}
