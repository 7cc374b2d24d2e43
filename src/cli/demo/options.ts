import { parseArgs } from 'node:util';

export type DemoOptions = Readonly<{
  /** The agent's task; null: the demo's own task. */
  task: string | null;
  /** The folder to work on; null: a sample project. */
  workspace: string | null;
  /** Progress to stderr, one JSON line to stdout. */
  json: boolean;
  yes: boolean;
  /** An agent leads three others, in place of one that works alone. */
  team: boolean;
}>;

export type ParsedArguments =
  | Readonly<{ kind: 'run'; options: DemoOptions }>
  | Readonly<{ kind: 'help' }>
  | Readonly<{ kind: 'mistake'; message: string }>;

export const HELP = `baton demo [options] ["task"]

Starts the whole service in this process, gives an agent a task through the HTTP API, sends it another message while
it works, shows what happens and cleans up.

  "task"            task of the agent (default: find a mistake in a small sample project)
  --workspace DIR   work on your own folder, in which Baton itself does not lie; the agent may change files in it
                    (default: a temporary sample project)
  --team            an agent that gives tasks to three others, who work at the same time; no message is sent meanwhile
  --yes             run every command that the agent wants to run, without being asked
  --json            progress to stderr, and as the last line of stdout
                    {"status","steps","toolCalls","injected","events","durationMs","backend"},
                    with --team also "children", how many there were
  --help            show this help

Before a command (bash) the agent waits for an approval. The demo asks you in the terminal, and denies where there is
none; where a script stands in for the model it approves by itself, and says so.

Environment
  OPENAI_API_KEY    asks a real model (OPENAI_BASE_URL and BATON_MODEL=provider/model choose another); so do
                    ANTHROPIC_API_KEY and BATON_PROVIDERS_FILE with BATON_MODEL; without any a script stands in
  DATABASE_URL      uses this Postgres; without it one is started in .baton (BATON_DATA_DIR)
  REDIS_URL         uses this Redis; without it queue and live events go over Postgres
  BATON_API_KEY     sent with every request: needed where the database has API keys
  NO_COLOR          no colours

Exit code: 0 when the run completed, 1 when not, 2 for wrong arguments, 130 after Ctrl-C.`;

/** Reads the command line. Several words without quotes are one task. */
export function parseArguments(args: readonly string[]): ParsedArguments {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        workspace: { type: 'string' },
        json: { type: 'boolean' },
        yes: { type: 'boolean' },
        team: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    });
    if (values.help === true) return { kind: 'help' };
    const task = positionals.length === 0 ? null : positionals.join(' ').trim();
    if (task === '') return { kind: 'mistake', message: 'The task is blank.' };
    const { workspace = null, json = false, yes = false, team = false } = values;
    if (workspace === '') return { kind: 'mistake', message: '--workspace needs the name of a folder.' };
    return { kind: 'run', options: { task, workspace, json, yes, team } };
  } catch (error) {
    return { kind: 'mistake', message: error instanceof Error ? error.message : String(error) };
  }
}
