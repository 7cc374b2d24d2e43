import { BatonError } from '../client/baton-error.ts';
import { asCalled } from '../platform/baton-command.ts';
import { EXIT, UsageError } from './exit-codes.ts';
import { printable } from './terminal/words.ts';

export type Command = Readonly<{
  /** Synopsis and options, for people. */
  usage: string;
  /** Resolves with the exit code. */
  run: (args: readonly string[], environment: NodeJS.ProcessEnv) => Promise<number>;
}>;

type Entry = Readonly<{ summary: string; load: () => Promise<Command> }>;

/** Loads only the called command, because an image of the service lacks those of development. */
export const GROUPS: Readonly<Record<string, Readonly<Record<string, Entry>>>> = {
  'Talk to a service': {
    submit: { summary: 'give an agent a task in a new session', load: () => import('./commands/submit.ts') },
    send: { summary: 'send a message to a session', load: () => import('./commands/send.ts') },
    sessions: { summary: 'list sessions', load: () => import('./commands/sessions.ts') },
    runs: { summary: 'list runs', load: () => import('./commands/runs.ts') },
    show: { summary: 'show a session with its transcript, or a run', load: () => import('./commands/show.ts') },
    result: { summary: 'wait for a run and print its answer', load: () => import('./commands/result.ts') },
    agents: { summary: 'list the agents', load: () => import('./commands/agents.ts') },
    queue: { summary: 'list, change or remove queued messages', load: () => import('./commands/queue.ts') },
    answer: { summary: 'approve, deny or answer a tool call', load: () => import('./commands/answer.ts') },
    resume: { summary: 'go on after a failure, a cancel or a limit', load: () => import('./commands/resume.ts') },
    fork: { summary: 'copy a session up to a message into a new one', load: () => import('./commands/fork.ts') },
    revert: { summary: 'remove everything after a message', load: () => import('./commands/revert.ts') },
    unrevert: { summary: 'undo the last revert', load: () => import('./commands/unrevert.ts') },
    repin: { summary: 'accept the MCP tools of a session as they are now', load: () => import('./commands/repin.ts') },
    schedules: { summary: 'send messages to agents by the clock', load: () => import('./commands/schedules.ts') },
    webhooks: { summary: 'tell URLs of runs', load: () => import('./commands/webhooks.ts') },
    cancel: { summary: 'cancel a run', load: () => import('./commands/cancel.ts') },
  },
  'Test agents': {
    record: { summary: 'print a session as a case for tests', load: () => import('./commands/record.ts') },
    test: { summary: 'play cases again, offline, and compare', load: () => import('./commands/test.ts') },
  },
  'Run a service': {
    dev: {
      summary: 'run everything in one process, with nothing else needed',
      load: () => import('./commands/dev.ts'),
    },
    api: { summary: 'serve the HTTP API', load: () => import('./commands/api.ts') },
    worker: {
      summary: 'run a worker: steps, compactions, prunes, deliveries or all',
      load: () => import('./commands/worker.ts'),
    },
    check: { summary: 'find what prevents a start', load: () => import('./commands/check.ts') },
    migrate: { summary: 'bring the database up to date', load: () => import('./commands/migrate.ts') },
    keys: { summary: 'create, list and revoke API keys', load: () => import('./commands/keys.ts') },
    restored: { summary: 'say that the database was set back', load: () => import('./commands/restored.ts') },
    retention: { summary: 'remove old data', load: () => import('./commands/retention.ts') },
  },
  'Try it out': {
    demo: { summary: 'watch an agent work', load: () => import('./commands/demo.ts') },
    simulator: { summary: 'run a simulated model provider', load: () => import('./commands/simulator.ts') },
  },
};

const NOTES = `baton COMMAND --help explains a command.

Exit codes: 0 done; 1 refused, or the run did not complete; 2 wrong arguments; 3 no service at the URL;
4 the run waits for an answer; 130 after Ctrl-C.`;

function usage(): string {
  const groups = Object.entries(GROUPS).map(([title, entries]) => {
    const lines = Object.entries(entries).map(([name, { summary }]) => `  ${name.padEnd(10)} ${summary}`);
    return `${title}\n${lines.join('\n')}`;
  });
  return ['baton COMMAND [arguments]', ...groups, NOTES].join('\n\n');
}

/** Runs one command. It does not throw: errors go to stderr and into the exit code. */
export async function runCommandLine(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const [name = '', ...rest] = args;
  if (['', 'help', '--help', '-h'].includes(name)) {
    process.stdout.write(`${asCalled(usage())}\n`);
    return EXIT.done;
  }
  const entry = Object.values(GROUPS).find((entries) => Object.hasOwn(entries, name))?.[name];
  if (entry === undefined) return refuse(`There is no command ${name}.`, usage());
  const command = await load(entry);
  if (command === null) return refuse(`This installation has no command ${name}: it is one for development.`, usage());
  if (rest.includes('--help') || rest.includes('-h')) {
    process.stdout.write(`${asCalled(command.usage)}\n`);
    return EXIT.done;
  }
  try {
    return await command.run(rest, environment);
  } catch (error) {
    if (isUsageError(error)) return refuse(error.message, command.usage);
    process.stderr.write(`baton ${name}: ${reasonOf(error)}\n`);
    return error instanceof BatonError && error.code === 'unreachable' ? EXIT.unreachable : EXIT.failed;
  }
}

/** Null: the command's file is missing, as in an image of the service. */
async function load({ load: importCommand }: Entry): Promise<Command | null> {
  try {
    return await importCommand();
  } catch (error) {
    const isMissing = error instanceof Error && 'code' in error && error.code === 'ERR_MODULE_NOT_FOUND';
    const isOurs = isMissing && 'url' in error && String(error.url).startsWith(new URL('.', import.meta.url).href);
    if (isOurs) return null;
    throw error;
  }
}

function refuse(message: string, help: string): number {
  process.stderr.write(`${message}\n\n${asCalled(help)}\n`);
  return EXIT.wrongArguments;
}

/** Includes the errors of Node's `parseArgs` for unknown options. */
function isUsageError(error: unknown): error is Error {
  if (error instanceof UsageError) return true;
  return error instanceof TypeError && 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
}

/** The message with those of its causes, each once: "cannot migrate: connect ECONNREFUSED …". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return printable(String(error));
  const own = error instanceof AggregateError ? error.errors.map(reasonOf).join(', ') : printable(error.message);
  const code = error instanceof BatonError ? `${error.code}: ` : '';
  const cause = error.cause === undefined ? '' : reasonOf(error.cause);
  return own.includes(cause) ? code + own : `${code}${own}: ${cause}`;
}
