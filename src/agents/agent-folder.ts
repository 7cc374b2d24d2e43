import { stat } from 'node:fs/promises';
import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import type { Log } from '../platform/log.ts';
import type { Agent, AgentCatalogue, AgentSet } from './agent.ts';
import {
  AgentFileError,
  createCatalogue,
  fileErrorsIn,
  listAgentFiles,
  readAgents,
  throwTogether,
} from './load-agents.ts';

/** Files are looked at when somebody asks for agents, and no more often than this. */
const LOOK_INTERVAL_MS = 1_000;

type AgentFolderOptions = Readonly<{
  folder: string;
  /** Takes the place of every agent's model, where given. */
  model?: string | undefined;
  /** Whether an agent can be served. @throws BatonError `config_invalid` whose message begins with the key */
  check: (agent: Agent, agents: AgentSet) => Promise<void>;
  /** The files besides its own by which an agent may be right or wrong, as absolute paths. */
  filesOf?: (agent: Agent) => readonly string[];
  /** Told of every set that is taken. */
  onLoad?: (agents: AgentSet) => void;
  log: Log;
  /** A monotonic clock, in milliseconds. */
  nowMs?: () => number;
}>;

/**
 * The agents of a folder as its files are now. A changed folder is taken as a whole: where anything is wrong with it,
 * the agents stay what they were, and the log names file and key. It is tried again when a file of it, or one that it
 * depends on, has changed.
 * @throws BatonError `config_invalid` where the folder is wrong at the start
 */
export async function openAgentFolder(options: AgentFolderOptions): Promise<AgentCatalogue> {
  const { folder, log, nowMs = () => performance.now() } = options;
  let seen = await stateOf(folder);
  let agents = await load(options);
  let nextLookMs = nowMs() + LOOK_INTERVAL_MS;
  let looking: Promise<void> | null = null;

  /** What a set that was rejected depended on, besides the folder. */
  let waitsFor: readonly string[] = [];
  const look = async (): Promise<void> => {
    const state = await stateOf(folder, waitsFor);
    if (state === seen) return;
    const files = filesOf(options);
    // What is written from here on is another state, and seen by the next look.
    const [alone, withFiles] = [await stateOf(folder), await stateOf(folder, files)];
    [seen, waitsFor] = [withFiles, files];
    try {
      agents = await load(options);
      [seen, waitsFor] = [alone, []];
      log('info', { event: 'agents_changed', agents: agents.names().length });
    } catch (error) {
      for (const place of placesOf(error, folder)) log('warn', { event: 'agents_rejected', ...place });
    }
  };
  return {
    async current() {
      if (looking === null && nowMs() >= nextLookMs) {
        looking = look().finally(() => {
          looking = null;
          nextLookMs = nowMs() + LOOK_INTERVAL_MS;
        });
      }
      await looking;
      return agents;
    },
  };
}

async function load({ folder, model, check, onLoad, log }: AgentFolderOptions): Promise<AgentSet> {
  const read = readAgents(folder, model);
  const agents = createCatalogue(read.map(({ agent }) => agent));
  const errors: AgentFileError[] = [];
  for (const { file, agent } of read) {
    try {
      await check(agent, agents);
    } catch (error) {
      if (!(error instanceof BatonError)) throw error;
      const message = `agent ${agent.name}: ${error.message}`;
      errors.push(new AgentFileError(file, keysIn(error.message), message, { cause: error }));
    }
  }
  throwTogether(errors);
  if (read.length === 0) log('warn', { event: 'agents_missing', folder: path.resolve(folder) });
  onLoad?.(agents);
  return agents;
}

/** Of the agents as their files are now; none where these cannot be read. */
function filesOf({ folder, model, filesOf: ofAgent }: AgentFolderOptions): readonly string[] {
  if (ofAgent === undefined) return [];
  try {
    return [...new Set(readAgents(folder, model).flatMap(({ agent }) => ofAgent(agent)))].sort();
  } catch (error) {
    if (error instanceof BatonError) return [];
    throw error;
  }
}

/** The key that a message about an agent's tools begins with. */
const keysIn = (message: string): string[] => /^[A-Za-z]+(\.[\w-]+)*(?=: )/.exec(message)?.slice(0, 1) ?? [];

/** Different whenever a file was added, removed, written or replaced: links of mounted volumes are followed. */
async function stateOf(folder: string, others: readonly string[] = []): Promise<string> {
  const fileState = async (file: string) => {
    const { ino, size, mtimeMs, ctimeMs } = await stat(path.resolve(folder, file));
    return [file, ino, size, mtimeMs, ctimeMs];
  };
  // One that is not there yet is what a set may wait for.
  const ofOthers = await Promise.all(others.map((file) => fileState(file).catch(() => [file])));
  try {
    const states = await Promise.all(listAgentFiles(folder).map(fileState));
    return JSON.stringify([...states, ...ofOthers]);
  } catch {
    // Not there, or not any more between two lines: reading it says so.
    return 'unreadable';
  }
}

type Place = Readonly<{ file: string; keys: readonly string[] }>;

/** Of an error that is about files, or else about the folder. */
function placesOf(error: unknown, folder: string): Place[] {
  const errors = fileErrorsIn(error);
  return errors.length === 0 ? [{ file: folder, keys: [] }] : errors.map(({ file, keys }) => ({ file, keys }));
}
