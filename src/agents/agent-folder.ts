import { stat } from 'node:fs/promises';
import path from 'node:path';
import { BatonError } from '../domain/errors.ts';
import type { Log } from '../platform/log.ts';
import type { Agent, AgentCatalogue, AgentSet, RejectedFile } from './agent.ts';
import { namesOf } from './agent-names.ts';
import {
  type AgentFile,
  AgentFileError,
  createCatalogue,
  listAgentFiles,
  nameErrors,
  readAgentFiles,
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
 * The agents of a folder, reloaded when a file changes. A file with an error holds up only itself: the agent that it had
 * stays as it was, and the log names file and key. Files that were rejected are tried again when one of the folder, or
 * one of `filesOf`, changes.
 * @throws BatonError `config_invalid` if the folder has an error at the start
 */
export async function openAgentFolder(options: AgentFolderOptions): Promise<AgentCatalogue> {
  const { folder, log, onLoad, nowMs = () => performance.now() } = options;
  let seen = await stateOf(folder);
  let accepted = await load(options, []);
  throwTogether(accepted.errors);
  warnOfNone(options, accepted);
  onLoad?.(accepted.agents);
  let nextLookMs = nowMs() + LOOK_INTERVAL_MS;
  let looking: Promise<void> | null = null;

  /** The files of `filesOf` on which rejected files depend; empty once all are accepted. */
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
      const loaded = await load(options, accepted.files);
      const isChanged = JSON.stringify(loaded.files) !== JSON.stringify(accepted.files);
      accepted = loaded;
      rejected = loaded.errors.map(({ file, keys, message }) => ({ file, keys, message }));
      if (rejected.length === 0) [seen, waitsFor] = [alone, []];
      warnOfNone(options, loaded);
      // Also where a file is as it was before: what a rejected one had changed counts again.
      if (isChanged || rejected.length === 0) {
        onLoad?.(loaded.agents);
        log('info', { event: 'agents_changed', agents: loaded.files.length });
      }
    } catch (error) {
      if (!(error instanceof BatonError)) throw error;
      rejected = [{ file: folder, keys: [], message: error.message }];
    }
    for (const { file, keys } of rejected) log('warn', { event: 'agents_rejected', file, keys });
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
      return accepted.agents;
    },
    rejected: () => rejected,
  };
}

type Loaded = Readonly<{ files: readonly AgentFile[]; agents: AgentSet; errors: readonly AgentFileError[] }>;

/**
 * Reads the folder. A file with an error has the agent that it had before, if any.
 * @throws BatonError `config_invalid` if the folder cannot be read
 */
async function load({ folder, model, check }: AgentFolderOptions, before: readonly AgentFile[]): Promise<Loaded> {
  const { read, errors } = readAgentFiles(folder, model);
  const found = new Map(errors.map((error) => [error.file, error]));
  // Without the agents of rejected files others may be wrong, such as one that gives them tasks.
  for (;;) {
    const files = standing(read, before, found);
    const agents = createCatalogue(files.map(({ agent }) => agent));
    const isFresh = ({ file }: Readonly<{ file: string }>) => !found.has(file);
    const wrong = [
      ...nameErrors(ownersFirst(files, before)),
      ...(await checkErrors(files.filter(isFresh), agents, check)),
    ].filter(isFresh);
    if (wrong.length === 0) return { files, agents, errors: [...found.values()] };
    for (const error of wrong) found.set(error.file, error);
  }
}

/** The files without an error, and for those with one what they had before, as long as no other file has its names. */
function standing(
  read: readonly AgentFile[],
  before: readonly AgentFile[],
  errors: ReadonlyMap<string, AgentFileError>,
): readonly AgentFile[] {
  const fresh = read.filter(({ file }) => !errors.has(file));
  const kept = before.filter(({ file }) => errors.has(file));
  const isFree = ({ agent }: AgentFile) => fresh.every((other) => !shareName(agent, other.agent));
  return [...fresh, ...kept.filter(isFree)].sort((a, b) => (a.file < b.file ? -1 : 1));
}

/** A name stays with the file that had it. */
function ownersFirst(files: readonly AgentFile[], before: readonly AgentFile[]): readonly AgentFile[] {
  const owned = new Map(before.map(({ file, agent }) => [file, agent.name]));
  const isOwner = ({ file, agent }: AgentFile) => owned.get(file) === agent.name;
  return [...files.filter(isOwner), ...files.filter((file) => !isOwner(file))];
}

const shareName = (agent: Agent, other: Agent): boolean => {
  const names = new Set(namesOf(other));
  return namesOf(agent).some((name) => names.has(name));
};

async function checkErrors(
  files: readonly AgentFile[],
  agents: AgentSet,
  check: AgentFolderOptions['check'],
): Promise<AgentFileError[]> {
  const errors: AgentFileError[] = [];
  for (const { file, agent } of files) {
    try {
      await check(agent, agents);
    } catch (error) {
      if (!(error instanceof BatonError)) throw error;
      const message = `agent ${agent.name}: ${error.message}`;
      errors.push(new AgentFileError(file, keysIn(error.message), message, { cause: error }));
    }
  }
  return errors;
}

function warnOfNone({ folder, log }: AgentFolderOptions, { files, errors }: Loaded): void {
  if (files.length === 0 && errors.length === 0) log('warn', { event: 'agents_missing', folder: path.resolve(folder) });
}

/** The paths of `options.filesOf`; none if the folder cannot be read. */
function filesOf({ folder, model, filesOf: ofAgent }: AgentFolderOptions): readonly string[] {
  if (ofAgent === undefined) return [];
  try {
    return [...new Set(readAgentFiles(folder, model).read.flatMap(({ agent }) => ofAgent(agent)))].sort();
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
    // The folder is missing, or a file went away after it was listed. `readAgentFiles` reports the error.
    return 'unreadable';
  }
}
