import { mkdtemp, realpath, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createClient } from '../../client/client.ts';
import { asCalled, batonCommand } from '../../platform/baton-command.ts';
import { type Interrupt, listenForInterrupt } from '../terminal/interrupt.ts';
import { createPrinter, type Printer } from '../terminal/printer.ts';
import { printable, seconds } from '../terminal/words.ts';
import { WAYS_TO_A_MODEL } from '../ways-to-a-model.ts';
import { createApprover } from './approvals.ts';
import { converse, type TalkOutcome } from './conversation.ts';
import { type DemoOptions, HELP, parseArguments } from './options.ts';
import {
  GENERAL_MESSAGE,
  GENERAL_TASK,
  GENERAL_TEAM_TASK,
  SAMPLE_MESSAGE,
  SAMPLE_TASK,
  SAMPLE_TEAM_TASK,
  writeSampleProject,
} from './sample-project.ts';
import type { DemoService } from './service.ts';
import { showSummary, toJsonLine } from './summary.ts';

const EXIT_NOT_COMPLETED = 1;
const EXIT_WRONG_ARGUMENTS = 2;

/**
 * From arguments to exit code. It does not throw; when it returns, its parts have stopped and temporary folders are
 * gone.
 */
export async function runDemo(args: readonly string[], environment: NodeJS.ProcessEnv): Promise<number> {
  const parsed = parseArguments(args);
  if (parsed.kind === 'help') {
    process.stdout.write(`${asCalled(HELP)}\n`);
    return 0;
  }
  if (parsed.kind === 'mistake') return refuse(parsed.message);
  const { options } = parsed;
  using interrupt = listenForInterrupt(process.stdout, process.stderr);
  const printer = createPrinter(options.json ? process.stderr : process.stdout);
  try {
    await using workspace = await openWorkspace(options.workspace);
    if (workspace === null) return refuse(`--workspace: ${options.workspace} is no folder.`);
    const code = await play(options, environment, { workspace, printer, interrupt });
    return interrupt.signal.aborted ? interrupt.exitCode() : code;
  } catch (error) {
    printer.end();
    if (interrupt.signal.aborted) return interrupt.exitCode();
    process.stderr.write(`The demo failed: ${reasonOf(error)}\n`);
    return EXIT_NOT_COMPLETED;
  }
}

function refuse(message: string): number {
  process.stderr.write(`${message}\nTry: ${batonCommand()} demo --help\n`);
  return EXIT_WRONG_ARGUMENTS;
}

type Stage = Readonly<{ workspace: WorkspaceFolder; printer: Printer; interrupt: Interrupt }>;

async function play(options: DemoOptions, environment: NodeJS.ProcessEnv, stage: Stage): Promise<number> {
  const { workspace, printer, interrupt } = stage;
  const startedAtMs = performance.now();
  printer.print({ kind: 'heading', text: 'Baton demo: an agent whose every step is a durable job' });
  printer.print({ kind: 'line', tone: 'dim', text: 'starting database, queue, worker and server …' });
  // Loaded late, so that a person sees at once that something happens.
  const { startDemoService } = await import('./service.ts');
  const { agent, task, message } = partOf(options, workspace);
  await using service = await startDemoService(environment, workspace.path, agent);
  interrupt.signal.throwIfAborted();
  introduce(printer, service, workspace, performance.now() - startedAtMs);
  const outcome = await converse({
    api: createClient({ baseUrl: service.url, apiKey: environment['BATON_API_KEY'] || undefined }),
    printer,
    ...{ agent, message, task: options.task ?? task, isTeam: options.team },
    approve: createApprover({
      isSimulated: service.isSimulated,
      yes: options.yes,
      input: process.stdin,
      output: options.json ? process.stderr : process.stdout,
    }),
    signal: interrupt.signal,
  });
  report(options, printer, outcome, service);
  return outcome.ended.status === 'completed' ? 0 : EXIT_NOT_COMPLETED;
}

/** Agent, task and message of the demo that was asked for. */
function partOf({ team }: DemoOptions, { isSample }: WorkspaceFolder) {
  if (team) return { agent: 'lead', task: isSample ? SAMPLE_TEAM_TASK : GENERAL_TEAM_TASK, message: null };
  return isSample
    ? { agent: 'workspace', task: SAMPLE_TASK, message: SAMPLE_MESSAGE }
    : { agent: 'workspace', task: GENERAL_TASK, message: GENERAL_MESSAGE };
}

function introduce(printer: Printer, service: DemoService, workspace: WorkspaceFolder, durationMs: number): void {
  const model = service.isSimulated
    ? `a script stands in for it; for a real one set ${WAYS_TO_A_MODEL}`
    : service.model;
  const facts = {
    files: workspace.isSample ? `a sample project in ${workspace.path}` : workspace.path,
    model,
    database: service.database,
    queue: service.backend === 'redis' ? 'BullMQ on Redis' : 'BullMQ on PostgreSQL',
    server: `${service.url} (up after ${seconds(durationMs)})`,
  };
  for (const [name, fact] of Object.entries(facts)) {
    printer.print({ kind: 'line', tone: 'plain', text: `${name.padEnd(10)} ${fact}` });
  }
  if (service.remark !== null) printer.print({ kind: 'line', tone: 'bad', text: service.remark });
}

function report(options: DemoOptions, printer: Printer, outcome: TalkOutcome, service: DemoService): void {
  printer.print(...showSummary(outcome, service));
  if (options.json) process.stdout.write(`${toJsonLine(outcome, service.backend)}\n`);
}

/** The message with those of its causes: "cannot migrate: connect ECONNREFUSED …". */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return printable(String(error));
  const own = error instanceof AggregateError ? error.errors.map(reasonOf).join(', ') : printable(error.message);
  return error.cause === undefined ? own : `${own}: ${reasonOf(error.cause)}`;
}

type WorkspaceFolder = AsyncDisposable & Readonly<{ path: string; isSample: boolean }>;

/**
 * The folder that the agent works on: the given one, or a temporary sample project, which is removed at the end.
 * @returns null if the given path is no folder
 */
async function openWorkspace(folder: string | null): Promise<WorkspaceFolder | null> {
  if (folder !== null) {
    const path = resolve(folder);
    const found = await stat(path).catch(() => null);
    if (found?.isDirectory() !== true) return null;
    return { path, isSample: false, [Symbol.asyncDispose]: async () => undefined };
  }
  const path = await realpath(await mkdtemp(join(tmpdir(), 'baton-demo-')));
  const remove = (): Promise<void> => rm(path, { recursive: true, force: true, maxRetries: 5 });
  try {
    await writeSampleProject(path);
  } catch (error) {
    await remove();
    throw error;
  }
  return { path, isSample: true, [Symbol.asyncDispose]: remove };
}
