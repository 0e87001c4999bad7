export { createServer, type RunningServer } from "./createServer.ts";
export { type Credentials, credentialsPath, readCredentials } from "./credentials/credentialsFile.ts";
export { DEFAULT_LISTEN } from "./http/listenAddress.ts";
export { createLogger } from "./log.ts";
export { DEFAULT_LIMITS, type ServerLimits, type ServerOptions } from "./options.ts";
