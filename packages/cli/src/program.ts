import { VERSION } from "@sandpool/protocol";
import { Command, Option } from "commander";
import { doctor } from "./commands/doctor.ts";
import { down } from "./commands/down.ts";
import { type EnvCheckOptions, envCheck } from "./commands/envCheck.ts";
import { createKey, listKeys, revokeKey } from "./commands/keys.ts";
import { closePool, listPools, poolLogs, poolStatus } from "./commands/pool.ts";
import { type UpOptions, up } from "./commands/up.ts";
import { wholeNumber } from "./options.ts";
import { EXIT } from "./output/failure.ts";
import { Output } from "./output/output.ts";
import { defaultDataFolder } from "./server/paths.ts";

/** Receives the exit code of the command that ran. */
export type Finish = (code: number) => void;

/** The whole command line. Actions end in `finish`; wrong use throws commander's own errors. */
export function buildProgram(finish: Finish): Command {
  const program = new Command("sandpool").description(
    "Pools of isolated reinforcement-learning environments, on your machines.",
  );
  program.version(VERSION).exitOverride().helpCommand(true).showSuggestionAfterError(true).enablePositionalOptions();
  addServerCommands(program, finish);
  addKeyCommands(program.command("keys").description("keys of the running server"), finish);
  addPoolCommands(program.command("pool").description("pools of the running server"), finish);
  addEnvCommands(program.command("env").description("environments on disk"), finish);
  return program;
}

function addServerCommands(program: Command, finish: Finish): void {
  leaf(program, "up", "start the server and its worker; stays in the foreground")
    .option("--listen <host:port>", "address to listen on; port 0 picks a free one", "127.0.0.1:7070")
    .option("--data <dir>", "folder of the store, archives and locks", defaultDataFolder())
    .option("--insecure", "allow plain HTTP beyond this machine", false)
    .option("--tls-cert <file>", "certificate (PEM)")
    .option("--tls-key <file>", "private key (PEM)")
    .option("--allow-host <host...>", "further name[:port] that clients reach the server by, such as a proxy's", [])
    .option("--private-host <host...>", "package index in a private network that dependency builds may reach", [])
    .addOption(
      new Option("--log-level <level>", "log to standard error").choices(["debug", "info", "warn", "error", "silent"]),
    )
    .action(run(finish, (output, options: UpOptions) => up(output, options)));
  leaf(program, "down", "stop the server of a data folder, closing its pools")
    .option("--data <dir>", "folder given to up", defaultDataFolder())
    .action(run(finish, (output, options: { data: string }) => down(output, options)));
  leaf(program, "doctor", "say what this host can run and what it lacks").action(
    run(finish, (output) => doctor(output)),
  );
  leaf(program, "version", "print the version").action(
    run(finish, async (output) => {
      if (output.json) output.document({ version: VERSION, node: process.version });
      else output.line(VERSION);
      return EXIT.ok;
    }),
  );
}

function addKeyCommands(keys: Command, finish: Finish): void {
  leaf(keys, "create <name>", "make a key; it is printed once")
    .option("--owner <owner>", "account the key belongs to (administrator's keys only)")
    .action((name: string, options: Flags & { owner?: string }) =>
      perform(finish, options, (output) =>
        createKey(output, name, options.owner === undefined ? {} : { owner: options.owner }),
      ),
    );
  leaf(keys, "list", "list keys, without their text").action(run(finish, (output) => listKeys(output)));
  leaf(keys, "revoke <id>", "revoke a key at once").action((id: string, options: Flags) =>
    perform(finish, options, (output) => revokeKey(output, id)),
  );
}

function addPoolCommands(pool: Command, finish: Finish): void {
  leaf(pool, "list", "list living pools").action(run(finish, (output) => listPools(output)));
  leaf(pool, "status <pool>", "show a pool by id or name, with its rows")
    .option("--memory", "sample the memory of every environment", false)
    .action((id: string, options: Flags & { memory: boolean }) =>
      perform(finish, options, (output) => poolStatus(output, id, { memory: options.memory })),
    );
  leaf(pool, "logs <pool>", "show the last 64 KiB of a row's standard error")
    .option("--row <index>", "which environment", wholeNumber(0, 99_999), 0)
    .action((id: string, options: Flags & { row: number }) =>
      perform(finish, options, (output) => poolLogs(output, id, { row: options.row })),
    );
  leaf(pool, "close <pool>", "close a pool").action((id: string, options: Flags) =>
    perform(finish, options, (output) => closePool(output, id)),
  );
}

function addEnvCommands(env: Command, finish: Finish): void {
  leaf(env, "check <dir>", "run an environment in a real pool and report what a trainer would meet")
    .option("--n <count>", "rows", wholeNumber(1, 10_000), 8)
    .option("--steps <count>", "batches to step", wholeNumber(1, 1_000_000), 200)
    .option(
      "--seed <number>",
      "seed of the pool and of the sampled actions",
      wholeNumber(0, Number.MAX_SAFE_INTEGER),
      0,
    )
    .option("--actions <file>", "actions to send, one JSON value a line, instead of sampled ones")
    .option("--python <path>", "Python interpreter of the environments")
    .option("--isolation <driver>", "driver of the pool")
    .action((dir: string, options: Flags & EnvCheckOptions) =>
      perform(finish, options, (output) => envCheck(output, dir, options)),
    );
}

interface Flags {
  json: boolean;
}

/** A command that does something; every one of them takes `--json`. */
function leaf(parent: Command, signature: string, description: string): Command {
  return parent.command(signature).description(description).option("--json", "print one JSON document", false);
}

function run<Options>(finish: Finish, action: (output: Output, options: Options) => Promise<number>) {
  return (options: Options & Flags): Promise<void> => perform(finish, options, (output) => action(output, options));
}

async function perform(finish: Finish, options: Flags, action: (output: Output) => Promise<number>): Promise<void> {
  finish(await action(new Output({ json: options.json })));
}
