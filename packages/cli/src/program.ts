import { Argument, Command, Option } from "commander";
import { addImageCommands } from "./commands/declareImage.ts";
import type { EnvCheckOptions } from "./commands/envCheck.ts";
import { addMachineCommands, addStorageCommands } from "./commands/machine/declare.ts";
import type { UpOptions } from "./commands/up.ts";
import { type Finish, type Flags, leaf, perform, run } from "./leaf.ts";
import { folder, wholeNumber } from "./options.ts";
import { EXIT } from "./output/failure.ts";
import { defaultDataFolder } from "./server/paths.ts";
import { VERSION } from "./version.ts";

// Each command is loaded when it runs, so that help, errors and small commands start at once.
const keyCommands = () => import("./commands/keys.ts");
const completion = () => import("./commands/completion.ts");
const poolCommands = () => import("./commands/pool.ts");

/** The whole command line. Actions end in `finish`; wrong use throws commander's own errors. */
export function buildProgram(finish: Finish): Command {
  const program = new Command("sandpool").description(
    "Pools of isolated reinforcement-learning environments, on your machines.",
  );
  program.version(VERSION).exitOverride().helpCommand(true).showSuggestionAfterError(true).enablePositionalOptions();
  addServerCommands(program, finish);
  addKeyCommands(program.command("keys").description("keys of the running server"), finish);
  addPoolCommands(program.command("pool").description("pools of the running server"), finish);
  addMachineCommands(program.command("machine").description("long-lived isolated Linux boxes"), finish);
  addImageCommands(program.command("image").description("root file systems of machines"), finish);
  addStorageCommands(program, finish);
  addCompletionCommands(program, finish);
  addEnvCommands(program.command("env").description("environments on disk"), finish);
  return program;
}

function addServerCommands(program: Command, finish: Finish): void {
  leaf(program, "up", "start the server and its worker; stays in the foreground")
    .option("--listen <host:port>", "address to listen on; port 0 picks a free one", "127.0.0.1:7070")
    .option("--data <dir>", "folder of the store, archives and locks", folder, defaultDataFolder())
    .option("--insecure", "allow plain HTTP beyond this machine", false)
    .option(
      "--allow-unisolated",
      'let clients ask for isolation="unisolated": their code runs as this user (default: only where the host is not Linux)',
      process.platform !== "linux",
    )
    .option("--tls-cert <file>", "certificate (PEM)")
    .option("--tls-key <file>", "private key (PEM)")
    .option("--allow-host <host...>", "further name[:port] that clients reach the server by, such as a proxy's", [])
    .option("--private-host <host...>", "package index in a private network that dependency builds may reach", [])
    .option("--machines <count>", "machines of one owner, 50 unless given", wholeNumber(0, 100_000))
    .option(
      "--disk-save-interval <seconds>",
      "between two saves of a running machine's disk, 300 unless given; 0: only at a stop",
      wholeNumber(0, 7 * 24 * 3600),
    )
    .option("--machines-may-reach <address...>", "address, address/prefix or address:port in a private network", [])
    .addOption(
      new Option("--log-level <level>", "log to standard error").choices(["debug", "info", "warn", "error", "silent"]),
    )
    .action(run(finish, async (output, options: UpOptions) => (await import("./commands/up.ts")).up(output, options)));
  leaf(program, "down", "stop the server of a data folder, its pools and its machines (their disks are saved)")
    .option("--data <dir>", "folder given to up", folder, defaultDataFolder())
    .option("--keep-machines", "let machines run on; the next up takes them over", false)
    .action(
      run(finish, async (output, options: { data: string; keepMachines: boolean }) =>
        (await import("./commands/down.ts")).down(output, options),
      ),
    );
  leaf(program, "doctor", "say what this host can run and what it lacks").action(
    run(finish, async (output) => (await import("./commands/doctor.ts")).doctor(output)),
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
      perform(finish, options, async (output) =>
        (await keyCommands()).createKey(output, name, options.owner === undefined ? {} : { owner: options.owner }),
      ),
    );
  leaf(keys, "list", "list keys, without their text").action(
    run(finish, async (output) => (await keyCommands()).listKeys(output)),
  );
  leaf(keys, "revoke <id>", "revoke a key at once").action((id: string, options: Flags) =>
    perform(finish, options, async (output) => (await keyCommands()).revokeKey(output, id)),
  );
}

function addPoolCommands(pool: Command, finish: Finish): void {
  leaf(pool, "list", "list living pools").action(
    run(finish, async (output) => (await poolCommands()).listPools(output)),
  );
  leaf(pool, "status <pool>", "show a pool by id or name, with its rows")
    .option("--memory", "sample the memory of every environment", false)
    .action((id: string, options: Flags & { memory: boolean }) =>
      perform(finish, options, async (output) =>
        (await poolCommands()).poolStatus(output, id, { memory: options.memory }),
      ),
    );
  leaf(pool, "logs <pool>", "show the last 64 KiB of a row's standard error")
    .option("--row <index>", "which environment", wholeNumber(0, 99_999), 0)
    .action((id: string, options: Flags & { row: number }) =>
      perform(finish, options, async (output) => (await poolCommands()).poolLogs(output, id, { row: options.row })),
    );
  leaf(pool, "close <pool>", "close a pool").action((id: string, options: Flags) =>
    perform(finish, options, async (output) => (await poolCommands()).closePool(output, id)),
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
      perform(finish, options, async (output) =>
        (await import("./commands/envCheck.ts")).envCheck(output, dir, options),
      ),
    );
}

function addCompletionCommands(program: Command, finish: Finish): void {
  const shells = new Argument("<shell>", "whose completion is printed").choices(["bash", "zsh", "fish"]);
  leaf(program, "completion", "print a script that completes commands, options and names")
    .addArgument(shells)
    .action((shell: "bash" | "zsh" | "fish", options: Flags) =>
      perform(finish, options, async (output) => (await completion()).printScript(output, shell)),
    );
  program
    .command("__complete", { hidden: true })
    .allowUnknownOption()
    .argument("[words...]")
    .action(async (words: string[]) => finish(await (await completion()).complete(program, words)));
}
