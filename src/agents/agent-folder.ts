import { stat } from 'node:fs/promises';
import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import type { Log } from '../platform/log.ts';
import type { Agent, AgentCatalogue, AgentSet, RejectedFile } from './agent.ts';
import {
  AgentFileError,
  createCatalogue,
  fileErrorsIn,
  listAgentFiles,
  readAgents,
  throwTogether,
} from './load-agents.ts';

/** The shortest time between two checks of the folder. Only callers of `current` cause one. */
const LOOK_INTERVAL_MS = 1_000;

type AgentFolderOptions = Readonly<{
  folder: string;
  /** Replaces the model of every agent. */
  model?: string | undefined;
  /** @throws BatonError `config_invalid` if the agent cannot be served; the message begins with the key */
  check: (agent: Agent, agents: AgentSet) => Promise<void>;
  /** Absolute paths of further files on which the validity of an agent depends. */
  filesOf?: (agent: Agent) => readonly string[];
  /** Called with every accepted set. */
  onLoad?: (agents: AgentSet) => void;
  log: Log;
  /** Monotonic, in milliseconds. */
  nowMs?: () => number;
}>;

/**
 * The agents of a folder, reloaded as a whole when a file changes: with any error the current agents stay, and the log
 * names file and key. A rejected folder is tried again when one of its files, or one of `filesOf`, changes.
 * @throws BatonError `config_invalid` if the folder has an error at the start
 */
export async function openAgentFolder(options: AgentFolderOptions): Promise<AgentCatalogue> {
  const { folder, log, nowMs = () => performance.now() } = options;
  let seen = await stateOf(folder);
  let agents = await load(options);
  let nextLookMs = nowMs() + LOOK_INTERVAL_MS;
  let looking: Promise<void> | null = null;

  /** The files of `filesOf` on which a rejected set depends; empty once a set is accepted. */
  let waitsFor: readonly string[] = [];
  let rejected: readonly RejectedFile[] = [];
  const look = async (): Promise<void> => {
    const state = await stateOf(folder, waitsFor);
    if (state === seen) return;
    const files = filesOf(options);
    // Read before the files are loaded: the next check sees any later write as a change.
    const [alone, withFiles] = [await stateOf(folder), await stateOf(folder, files)];
    [seen, waitsFor] = [withFiles, files];
    try {
      agents = await load(options);
      [seen, waitsFor, rejected] = [alone, [], []];
      log('info', { event: 'agents_changed', agents: agents.names().length });
    } catch (error) {
      rejected = rejectedBy(error, folder);
      for (const { file, keys } of rejected) log('warn', { event: 'agents_rejected', file, keys });
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
    rejected: () => rejected,
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

/** The paths of `options.filesOf`; none if an agent's file cannot be read. */
function filesOf({ folder, model, filesOf: ofAgent }: AgentFolderOptions): readonly string[] {
  if (ofAgent === undefined) return [];
  try {
    return [...new Set(readAgents(folder, model).flatMap(({ agent }) => ofAgent(agent)))].sort();
  } catch (error) {
    if (error instanceof BatonError) return [];
    throw error;
  }
}

/** The key at the beginning of an error message. */
const keysIn = (message: string): string[] => /^[A-Za-z]+(\.[\w-]+)*(?=: )/.exec(message)?.slice(0, 1) ?? [];

/** Changes when a file is added, removed, written or replaced. `stat` follows the links of mounted volumes. */
async function stateOf(folder: string, others: readonly string[] = []): Promise<string> {
  const fileState = async (file: string) => {
    const { ino, size, mtimeMs, ctimeMs } = await stat(path.resolve(folder, file));
    return [file, ino, size, mtimeMs, ctimeMs];
  };
  // A missing file is part of the state: a rejected set may wait for it.
  const ofOthers = await Promise.all(others.map((file) => fileState(file).catch(() => [file])));
  try {
    const states = await Promise.all(listAgentFiles(folder).map(fileState));
    return JSON.stringify([...states, ...ofOthers]);
  } catch {
    // The folder is missing, or a file went away after it was listed. `readAgents` reports the error.
    return 'unreadable';
  }
}

/** The files of an error; the folder for any other error. */
function rejectedBy(error: unknown, folder: string): readonly RejectedFile[] {
  const errors = fileErrorsIn(error);
  if (errors.length > 0) return errors.map(({ file, keys, message }) => ({ file, keys, message }));
  return [{ file: folder, keys: [], message: error instanceof BatonError ? error.message : String(error) }];
}
